// Shows the exact request that an endpoint will get, while the form is filled in.
const form = document.querySelector("form.submit");
const shown = document.querySelector("#curl code");
let waiting = 0;

async function refresh() {
  const data = new FormData(form);
  data.delete("api_key"); // never sent before the form is submitted
  try {
    const answer = await fetch(form.dataset.preview, { method: "POST", body: data });
    if (answer.ok) shown.textContent = await answer.text();
  } catch {
    // Offline: keep the request shown before.
  }
}

form.addEventListener("input", (event) => {
  if (event.target.name === "api_key") return;
  clearTimeout(waiting);
  waiting = setTimeout(refresh, 400);
});

// Prevents a second click. The server also ignores a form that is sent twice.
form.addEventListener("submit", () => {
  const button = form.querySelector("button.primary");
  button.disabled = true;
  button.textContent = "Checking …";
});
window.addEventListener("pageshow", () => {
  const button = form.querySelector("button.primary");
  button.disabled = false;
});
