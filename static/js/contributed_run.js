// Shows the progress of the check of a contributed run, then its result.
import { poll } from "./poll.js";

const bar = document.querySelector("#contribution-bar");
const words = document.querySelector("#contribution-words");

poll(
  document.querySelector("#contribution").dataset.state,
  ({ state, done, total }) => {
    if (state !== "waiting" && state !== "checking") {
      location.reload();
      return false;
    }
    if (total) {
      bar.max = total;
      bar.value = done;
      words.textContent = `${done.toLocaleString("en")} of ${total.toLocaleString("en")} lines of the bundle`;
    }
    return true;
  },
  { often: 2000, seldom: 15000 },
);
