/**
 * The script of the page: a chat whose answers come as streams, and a picture of the cache, which it asks for twice a
 * second while somebody sees it. It is plain JavaScript, and adds text only as text nodes.
 */
export const pageScript = `
const $ = (id) => document.getElementById(id);
const make = (parent, tag, className, text) => {
  const element = parent.appendChild(document.createElement(tag));
  element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};
const show = (id, value) => {
  const text = String(value);
  if ($(id).textContent !== text) $(id).textContent = text;
};

// The key is kept for this tab only.
let key = sessionStorage.getItem('key') ?? '';
const call = async (path, options = {}) => {
  const headers = key === '' ? {} : { authorization: 'Bearer ' + key };
  const response = await fetch(path, { ...options, headers });
  if (response.status === 401) $('key-form').hidden = false;
  if (response.ok) return response;
  const told = await response.json().catch(() => undefined);
  throw new Error(told?.error?.message ?? 'The server answered with status ' + response.status + '.');
};
$('key-form').addEventListener('submit', (event) => {
  event.preventDefault();
  key = $('key').value;
  sessionStorage.setItem('key', key);
  $('key-form').hidden = true;
  look();
});

// The chat.
let conversation = [];
let asking;
const add = (role, text) => {
  const element = make($('messages'), 'div', 'message ' + role, text);
  element.scrollIntoView({ block: 'end' });
  return element;
};
async function* events(response) {
  let rest = '';
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split('\\n\\n');
    rest = parts.pop();
    for (const part of parts) {
      const data = part.slice(part.indexOf('data: ') + 6);
      if (data === '[DONE]') return;
      const event = JSON.parse(data);
      if (event.error) throw new Error(event.error.message);
      yield event;
    }
  }
}
const send = async (text) => {
  const isChat = $('mode').value === 'chat';
  const messages = [...conversation, { role: 'user', content: text }];
  add('user', text);
  const answer = add('assistant');
  const output = answer.appendChild(document.createTextNode(''));
  const begun = performance.now();
  asking = new AbortController();
  $('send').disabled = true;
  $('stop').hidden = false;
  let tokens = 0;
  let first;
  try {
    const response = await call(isChat ? 'v1/chat/completions' : 'v1/completions', {
      method: 'POST',
      signal: asking.signal,
      body: JSON.stringify({
        model: $('model').value,
        ...(isChat ? { messages } : { prompt: text }),
        temperature: Number($('temperature').value),
        max_tokens: Number($('tokens').value),
        stream: true,
        stream_options: { include_usage: true },
      }),
    });
    for await (const { choices, usage } of events(response)) {
      tokens = usage?.completion_tokens ?? tokens;
      const added = isChat ? choices[0]?.delta.content : choices[0]?.text;
      if (!added) continue;
      first ??= performance.now();
      const log = $('messages');
      const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
      output.data += added;
      if (isAtEnd) log.scrollTop = log.scrollHeight;
    }
    if (isChat) conversation = [...messages, { role: 'assistant', content: output.data }];
  } catch (error) {
    if (error.name !== 'AbortError') add('error', error.message);
  } finally {
    $('send').disabled = false;
    $('stop').hidden = true;
    if (output.data === '') answer.remove();
    else if (tokens > 0) {
      const seconds = (performance.now() - begun) / 1000;
      const wait = Math.round(first - begun);
      make(answer, 'small', '', tokens + ' tokens, ' + (tokens / seconds).toFixed(1) + ' tokens/s, the first after ' + wait + ' ms');
    }
  }
};
$('ask').addEventListener('submit', (event) => {
  event.preventDefault();
  const text = $('text').value;
  if (text.trim() === '' || $('send').disabled) return;
  $('text').value = '';
  void send(text);
});
$('text').addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  $('ask').requestSubmit();
});
$('stop').addEventListener('click', () => asking?.abort());
$('clear').addEventListener('click', () => {
  asking?.abort();
  conversation = [];
  $('messages').replaceChildren();
});
$('model').addEventListener('change', () => {
  last = undefined;
  void look();
});

// The engine.
let last;
const COLOURS = 8;
const drawBlocks = ({ blockCount, blockSize, sequences, keptBlocks }) => {
  const classes = Array(blockCount).fill('');
  for (const block of keptBlocks) classes[block] = 'kept';
  for (const { number, blocks } of sequences) {
    for (const block of blocks) {
      classes[block] = classes[block].startsWith('s') ? 'shared ' + classes[block] : 's' + (number % COLOURS);
    }
  }
  const grid = $('blocks');
  while (grid.childElementCount > blockCount) grid.lastChild.remove();
  while (grid.childElementCount < blockCount) make(grid, 'i', '');
  let used = 0;
  for (let block = 0; block < blockCount; block++) {
    if (classes[block] !== '' && classes[block] !== 'kept') used++;
    if (grid.children[block].className !== classes[block]) grid.children[block].className = classes[block];
  }
  show('used', used + ' / ' + blockCount);
  show('blocks-text', blockCount + ' blocks of ' + blockSize + ' tokens: ' + used + ' used, ' + keptBlocks.length + ' kept. A colour is a sequence.');
};
const drawSequences = (sequences) => {
  const list = $('sequences');
  const shown = sequences.slice(0, 24);
  while (list.childElementCount > shown.length) list.lastChild.remove();
  for (const [index, { number, state, tokens, blocks, preemptions }] of shown.entries()) {
    const item = list.children[index] ?? make(list, 'li', '');
    const taken = preemptions === 0 ? '' : ', interrupted ' + preemptions + ' times';
    const text = 'Sequence ' + number + ', ' + state + ': ' + tokens + ' tokens in ' + blocks.length + ' blocks' + taken;
    if (item.textContent === text) continue;
    item.replaceChildren();
    make(item, 'i', 's' + (number % COLOURS));
    item.append(text);
  }
};
const draw = (models) => {
  const select = $('model');
  const ids = models.map(({ id }) => id).join('\\n');
  if ([...select.options].map(({ value }) => value).join('\\n') !== ids) {
    select.replaceChildren(...models.map(({ id }) => new Option(id, id)));
  }
  const model = models.find(({ id }) => id === select.value);
  if (model === undefined) {
    $('text').placeholder = 'No model of this server makes text.';
    return;
  }
  const { statistics, cache } = model;
  const now = performance.now();
  const speed = last === undefined ? 0 : (1000 * (statistics.generatedTokens - last.tokens)) / (now - last.at);
  last = { tokens: statistics.generatedTokens, at: now };
  show('speed', speed.toFixed(speed < 10 ? 1 : 0));
  show('running', statistics.running);
  show('waiting', statistics.waiting);
  show('preemptions', statistics.preemptions);
  drawBlocks(cache);
  drawSequences(cache.sequences);
};
let isLooking = false;
const look = async () => {
  if (isLooking) return;
  isLooking = true;
  try {
    draw((await (await call('state')).json()).models);
  } catch {
    // The next look may get an answer. Without a key, the page asks for one.
  } finally {
    isLooking = false;
  }
};
setInterval(() => {
  if (!document.hidden && ($('key-form').hidden || key === '')) void look();
}, 500);
void look();
`;
