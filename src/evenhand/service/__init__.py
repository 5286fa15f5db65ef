"""``evenhand serve``: audits for a team, in the browser and by REST. Needs the extra ``service``."""
