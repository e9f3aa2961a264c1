// Light or dark: follows the system unless the user has chosen.

const CHOICES = ["auto", "light", "dark"];

/** Calls `changed` when the colours are others. */
export function theme(button, changed) {
  let chosen = CHOICES.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "auto";
  const apply = () => {
    document.documentElement.dataset.theme = chosen;
    button.textContent = `Theme: ${chosen}`;
  };
  const next = () => {
    chosen = CHOICES[(CHOICES.indexOf(chosen) + 1) % CHOICES.length];
    localStorage.setItem("theme", chosen);
    apply();
    changed();
  };
  button.addEventListener("click", next);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  apply();
  return next;
}
