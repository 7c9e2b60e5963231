// Shows the exact request while the form is filled in.
const form = document.querySelector("form.submit");
const shown = document.querySelector("#curl code");
let waiting = 0;

async function refresh() {
  const data = new FormData(form);
  data.delete("api_key"); // never leaves the form before it is submitted
  try {
    const answer = await fetch(form.dataset.preview, { method: "POST", body: data });
    if (answer.ok) shown.textContent = await answer.text();
  } catch {
    // Offline: the line stays as it is.
  }
}

form.addEventListener("input", (event) => {
  if (event.target.name === "api_key") return;
  clearTimeout(waiting);
  waiting = setTimeout(refresh, 400);
});

// A second click while the first is under way sends nothing new; the server would notice anyway.
form.addEventListener("submit", () => {
  const button = form.querySelector("button.primary");
  button.disabled = true;
  button.textContent = "Checking …";
});
window.addEventListener("pageshow", () => {
  const button = form.querySelector("button.primary");
  button.disabled = false;
});
