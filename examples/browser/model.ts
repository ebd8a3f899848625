import { checkpoints, type PageRun, startRanks } from 'shardwise/browser';
import { chosenDevice, elementOf, say } from './elements.ts';
import { isNews, type ModelNews, type Opening, type Order, type Prompt } from './model-message.ts';

const form = elementOf('settings', HTMLFormElement);
const folder = elementOf('folder', HTMLInputElement);
const prompt = elementOf('prompt', HTMLTextAreaElement);
const tokens = elementOf('tokens', HTMLInputElement);
const temperature = elementOf('temperature', HTMLInputElement);
const chat = elementOf('chat', HTMLInputElement);
const device = elementOf('device', HTMLSelectElement);
const write = elementOf('write', HTMLButtonElement);
const close = elementOf('close', HTMLButtonElement);
const lessons = elementOf('lessons', HTMLFormElement);
const texts = elementOf('texts', HTMLTextAreaElement);
const steps = elementOf('steps', HTMLInputElement);
const rate = elementOf('rate', HTMLInputElement);
const train = elementOf('train', HTMLButtonElement);
const save = elementOf('save', HTMLButtonElement);
const facts = elementOf('facts', HTMLElement);
const sample = elementOf('sample', HTMLElement);
const speed = elementOf('speed', HTMLElement);

/** Whether the open model has an adapter, which training gives it. */
let hasAdapter = false;
/** The rank that has the model, and the channel on which it is asked. */
let open: { readonly run: PageRun; readonly asks: BroadcastChannel } | undefined;

folder.addEventListener('change', () => void openFolder());
form.addEventListener('submit', (event) => {
  event.preventDefault();
  ask();
});
lessons.addEventListener('submit', (event) => {
  event.preventDefault();
  teach();
});
save.addEventListener('click', () => order({ kind: 'save' }, 'Reading the adapter.'));
close.addEventListener('click', () => open?.run.terminate());

async function openFolder(): Promise<void> {
  const files = [...(folder.files ?? [])];
  if (files.length === 0) return;
  folder.disabled = device.disabled = true;
  facts.replaceChildren();
  const [name = 'the folder'] = files[0]?.webkitRelativePath.split('/') ?? [];
  say(`Opening ${name} …`);
  const channel = crypto.randomUUID();
  const opening: Opening = { files, channel };
  const asks = new BroadcastChannel(channel);
  try {
    const run = await startRanks({
      size: 1,
      script: () => new Worker(new URL('./model-rank.ts', import.meta.url), { type: 'module' }),
      device: chosenDevice(),
      data: opening,
      onValue: (value) => {
        if (isNews(value)) show(value, name);
      },
    });
    open = { run, asks };
    close.disabled = false;
    const [end] = await run.ended;
    if (end?.status === 'failed' || end?.status === 'killed') {
      say(`${name} cannot be opened: ${end.error?.message ?? 'the rank has ended'}`, true);
    } else say('The model is closed.');
  } catch (error) {
    say(error instanceof Error ? error.message : String(error), true);
  }
  asks.close();
  open = undefined;
  hasAdapter = false;
  allow(false);
  close.disabled = chat.disabled = true;
  folder.disabled = device.disabled = false;
  // The same folder can be picked again.
  folder.value = '';
}

function ask(): void {
  if (open === undefined) return;
  const asked: Prompt = {
    text: prompt.value,
    maxNewTokens: tokens.valueAsNumber,
    temperature: temperature.valueAsNumber,
    isMessage: chat.checked && !chat.disabled,
  };
  sample.textContent = asked.isMessage ? '' : asked.text;
  speed.textContent = '';
  order({ kind: 'write', prompt: asked }, 'Writing.');
}

function teach(): void {
  const lines = texts.value.split('\n').filter((line) => line.trim() !== '');
  if (lines.length === 0) {
    say('Write texts to learn, one a line.', true);
    return;
  }
  const asked = { texts: lines, steps: steps.valueAsNumber, learningRate: rate.valueAsNumber };
  order({ kind: 'train', lessons: asked }, 'Training.');
}

/** Asks the rank for something. It does one thing after another. */
function order(asked: Order, message: string): void {
  allow(false);
  say(message);
  open?.asks.postMessage(asked);
}

function allow(isFree: boolean): void {
  write.disabled = train.disabled = !isFree;
  save.disabled = !isFree || !hasAdapter;
}

function show(news: ModelNews, name: string): void {
  switch (news.kind) {
    case 'opened':
      facts.replaceChildren(...Object.entries(news.facts).map(factElement));
      chat.disabled = !news.hasChatTemplate;
      chat.checked = news.hasChatTemplate;
      allow(true);
      return say(`${name} is open.`);
    case 'text':
      sample.append(news.text);
      return;
    case 'written': {
      const { tokens: count, milliseconds } = news;
      const rate = ((1000 * count) / milliseconds).toFixed(1);
      speed.textContent = `${count} new tokens, ${rate} a second`;
      allow(true);
      return say('Done.');
    }
    case 'learned':
      return say(`Training: update ${news.step} of ${news.steps}, loss ${news.loss.toFixed(3)}.`);
    case 'trained':
      hasAdapter = true;
      allow(true);
      return say(`The loss went from ${news.first.toFixed(3)} to ${news.last.toFixed(3)}.`);
    case 'adapter':
      checkpoints.download(new File([news.config], 'adapter_config.json'));
      checkpoints.download(new File([news.tensors], 'adapter_model.safetensors'));
      allow(true);
      return say('adapter_config.json and adapter_model.safetensors are among your downloads.');
    case 'refused':
      allow(true);
      return say(news.message, true);
    default: {
      const never: never = news;
      throw new TypeError(`unknown news: ${JSON.stringify(never)}`);
    }
  }
}

function factElement([name, value]: readonly [string, string]): HTMLElement {
  const row = document.createElement('div');
  const [term, text] = ['dt', 'dd'].map((tag) => document.createElement(tag));
  if (term === undefined || text === undefined) return row;
  term.textContent = name;
  text.textContent = value;
  row.append(term, text);
  return row;
}
