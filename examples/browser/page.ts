import { type PageRun, type RankEnd, startRanks, type StepReport } from 'shardwise/browser';
import firstText from '../../ARCHITECTURE.md?raw';
import { chosenDevice, elementOf, say } from './elements.ts';
import { bigramEntropy } from './entropy.ts';
import { LossChart } from './loss-chart.ts';
import { RankList } from './rank-list.ts';
import { batchSize, contextLength, isSample, parseSettings, strategyNames } from './settings.ts';

/** Steps whose median time is shown: those with a sample take longer. */
const timedSteps = 9;
/** What a text field can show without making the page slow. */
const mostFileBytes = 4e6;

const form = elementOf('settings', HTMLFormElement);
const text = elementOf('text', HTMLTextAreaElement);
const file = elementOf('file', HTMLInputElement);
const ranks = elementOf('ranks', HTMLSelectElement);
const strategy = elementOf('strategy', HTMLSelectElement);
const size = elementOf('size', HTMLSelectElement);
const steps = elementOf('steps', HTMLInputElement);
const [train, stop, end] = ['train', 'stop', 'end'].map((id) => elementOf(id, HTMLButtonElement));
const rankList = new RankList(elementOf('rank-list', HTMLElement));
const encoder = new TextEncoder();

strategy.append(...strategyNames.map((name) => new Option(name)));
text.value = firstText;
describeText();
chooseStrategies();
showChart(bigramEntropy(encoder.encode(text.value)), steps.valueAsNumber);

text.addEventListener('input', describeText);
ranks.addEventListener('change', chooseStrategies);
file.addEventListener('change', () => void readFile());
form.addEventListener('submit', (event) => {
  event.preventDefault();
  void trainModel();
});

function show(id: string, value: string): void {
  elementOf(id, HTMLElement).textContent = value;
}

/** A new chart in the place of the one before. */
function showChart(guess: number, count: number): LossChart {
  const chart = new LossChart(guess, count);
  elementOf('chart', HTMLElement).replaceChildren(chart.element);
  return chart;
}

function describeText(): void {
  const bytes = encoder.encode(text.value);
  const guess = bytes.length > 1 ? bigramEntropy(bytes).toFixed(2) : '–';
  show(
    'text-facts',
    `${bytes.length.toLocaleString('en')} bytes; pairs of bytes alone: ${guess} nats`,
  );
}

/** One rank needs no strategy. */
function chooseStrategies(): void {
  strategy.disabled = ranks.value === '1';
}

async function readFile(): Promise<void> {
  const [picked] = file.files ?? [];
  if (picked === undefined) return;
  const { name, size: byteLength } = picked;
  if (byteLength === 0) return say(`${name} is empty: pick another file.`, true);
  if (byteLength > mostFileBytes) {
    const limit = `${mostFileBytes / 1e6} million bytes`;
    return say(
      `${name} has ${byteLength.toLocaleString('en')} bytes, more than ${limit}: pick a part of it.`,
      true,
    );
  }
  try {
    text.value = new TextDecoder('utf-8', { fatal: true }).decode(await picked.arrayBuffer());
  } catch {
    return say(`${name} is no text in UTF-8, or can't be read: pick another file.`, true);
  }
  describeText();
  say(`The text is that of ${name}.`);
}

async function trainModel(): Promise<void> {
  const bytes = encoder.encode(text.value);
  const settings = parseSettings({
    text: bytes,
    strategy: strategy.value,
    size: size.value,
    steps: Math.max(1, Math.floor(steps.valueAsNumber || 1)),
  });
  const count = Number(ranks.value);
  const chart = showChart(bigramEntropy(bytes), settings.steps);
  const times: number[] = [];
  /** The losses that the ranks have reported of the step that some have not. */
  const losses = new Map<number, number[]>();
  const onStep = ({ step, loss = Number.NaN, stepMs, rank }: StepReport): void => {
    const known = [...(losses.get(step) ?? []), loss];
    losses.set(step, known);
    if (rank === 0) times.push(stepMs);
    if (known.length < count) return;
    losses.delete(step);
    const mean = known.reduce((sum, value) => sum + value, 0) / count;
    chart.add(mean);
    show('step', `${step} / ${settings.steps}`);
    show('loss', mean.toFixed(3));
    show('rate', rateOf(times));
  };
  for (const id of ['step', 'loss', 'rate']) show(id, '–');
  setRunning(true);
  say(`Starting ${count === 1 ? 'one rank' : `${count} ranks`} …`);
  try {
    const run = await startRanks({
      size: count,
      script: () => new Worker(new URL('./rank.ts', import.meta.url), { type: 'module' }),
      device: chosenDevice(),
      arenaBytes: 2 ** 28,
      data: settings,
      onStep,
      onValue: (value) => {
        if (isSample(value)) show('sample', `after update ${value.step}:\n\n${value.text}`);
      },
      onEnd: (ended) => rankList.end(ended),
    });
    await follow(run);
  } catch (error) {
    say(error instanceof Error ? error.message : String(error), true);
  }
  setRunning(false);
}

/** Until the last rank has ended. */
async function follow(run: PageRun): Promise<void> {
  const { transport, device: chosen } = run;
  const memory = transport.kind === 'threads' ? 'shared memory' : 'messages';
  const where = chosen.kind === 'webgpu' ? 'WebGPU' : 'WebAssembly';
  show(
    'where',
    `They compute by ${where}: ${chosen.reason}. They communicate by ${memory}: ${transport.reason}.`,
  );
  rankList.start(run);
  const over = new AbortController();
  const { signal } = over;
  stop?.addEventListener('click', () => run.stop(), { signal });
  end?.addEventListener('click', () => run.terminate(), { signal });
  say(`Training on ${run.size === 1 ? 'one rank' : `${run.size} ranks`}.`);
  const ends = await run.ended;
  over.abort();
  const failure = firstFailure(ends);
  if (failure !== undefined) say(failure, true);
  else if (ends.some(({ status: how }) => how === 'terminated')) say('Ended at once.');
  else say('Done.');
}

/** The failure that is not the consequence of another. */
function firstFailure(ends: readonly RankEnd[]): string | undefined {
  const failed = ends.filter(({ status: how }) => how === 'failed' || how === 'killed');
  const cause = failed.find(({ error }) => error?.name !== 'CollectiveAbortedError');
  if (cause === undefined) return failed[0]?.error?.message;
  return `Rank ${cause.rank} ${cause.error === undefined ? 'was killed' : `failed: ${cause.error.message}`}.`;
}

function setRunning(isRunning: boolean): void {
  if (train) train.disabled = isRunning;
  for (const button of [stop, end]) if (button) button.disabled = !isRunning;
}

/** Bytes that all ranks train on in a second. */
function rateOf(times: readonly number[]): string {
  const sorted = times.slice(-timedSteps).toSorted((a, b) => a - b);
  const median = sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
  return Math.round((batchSize * contextLength * 1000) / median).toLocaleString('en');
}
