// Before the first paint, so that nothing flashes: the light or dark that was chosen, else the system's.
"use strict";
{
  const chosen = localStorage.getItem("outrigger.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
