// Light or dark: follows the system unless the user has chosen.

const CHOICES = ["auto", "light", "dark"];

export function theme(button) {
  let chosen = CHOICES.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "auto";
  const apply = () => {
    document.documentElement.dataset.theme = chosen;
    button.textContent = `Theme: ${chosen}`;
  };
  const next = () => {
    chosen = CHOICES[(CHOICES.indexOf(chosen) + 1) % CHOICES.length];
    localStorage.setItem("theme", chosen);
    apply();
  };
  button.addEventListener("click", next);
  apply();
  return next;
}
