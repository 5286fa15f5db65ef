// A form that was sent says so, and is not sent twice.
document.addEventListener("submit", (event) => {
  const button = event.target.querySelector("button[data-wait]");
  if (!button || event.defaultPrevented) return;
  button.disabled = true;
  button.textContent = button.dataset.wait;
  const status = document.getElementById("waiting");
  if (status) status.textContent = button.dataset.wait;
});
// Back from the next page, the form can be sent again.
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
