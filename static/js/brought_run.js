// Shows how far the check of a brought run is, then what came of it.
import { poll } from "./poll.js";

const bar = document.querySelector("#brought-bar");
const words = document.querySelector("#brought-words");

poll(
  document.querySelector("#brought").dataset.state,
  ({ state, done, total }) => {
    if (state !== "waiting" && state !== "checking") {
      location.reload();
      return false;
    }
    if (total) {
      bar.max = total;
      bar.value = done;
      words.textContent = `${done.toLocaleString("en")} of ${total.toLocaleString("en")} lines`;
    }
    return true;
  },
  { often: 2000, seldom: 15000 },
);
