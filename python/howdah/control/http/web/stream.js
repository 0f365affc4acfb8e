// The status as it comes, over fetch: an EventSource could not send a token.
const SILENCE_MS = 5000;
const AGAIN_MS = 1000;
const TOKEN = "howdah-token";

function headers() {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

async function refusalOf(answer) {
  try {
    return (await answer.json()).error;
  } catch {
    return `the controller answered ${answer.status}`;
  }
}

// Calls told.status(status, role) for each, and told.lost(why) or told.locked(why) when there will be none.
async function follow(told) {
  const show = (status, role) => {
    try {
      told.status(status, role);
    } catch (error) {
      // A mistake of the page is none of the connection.
      reportError(error);
    }
  };
  for (;;) {
    const gone = new AbortController();
    let watchdog = setTimeout(() => gone.abort(), SILENCE_MS);
    const heard = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => gone.abort(), SILENCE_MS);
    };
    try {
      const answer = await fetch("v1/watch", { headers: headers(), signal: gone.signal, cache: "no-store" });
      if (answer.status === 401) {
        told.locked(sessionStorage.getItem(TOKEN) ? await refusalOf(answer) : "");
        return;
      }
      if (answer.ok) {
        const role = answer.headers.get("Howdah-Role");
        for await (const status of statusesOf(answer, heard)) show(status, role);
        told.lost("the controller has ended");
      } else {
        told.lost(await refusalOf(answer));
      }
    } catch {
      told.lost(gone.signal.aborted ? "nothing heard" : "not reached");
    } finally {
      clearTimeout(watchdog);
    }
    await new Promise((again) => setTimeout(again, AGAIN_MS));
  }
}

async function* statusesOf(answer, heard) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      if (event.startsWith("data: ")) yield JSON.parse(event.slice(6));
    }
  }
}

// Orders something; the answer is null, or why not.
async function order(method, path, body) {
  try {
    const answer = await fetch(path, {
      method,
      headers: { ...headers(), "Howdah-Client": "page", "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    return answer.ok ? null : await refusalOf(answer);
  } catch {
    return "the controller is not reached";
  }
}
