import { type PageRun, type RankEnd, startRanks, type StepReport } from 'shardwise/browser';
import firstText from '../../ARCHITECTURE.md?raw';
import { CheckpointList } from './checkpoint-list.ts';
import { chosenDevice, elementOf, say } from './elements.ts';
import { bigramEntropy } from './entropy.ts';
import { LossChart } from './loss-chart.ts';
import { RankList } from './rank-list.ts';
import { batchSize, contextLength, isSample, parseSettings, strategyNames } from './settings.ts';
import { newRunDirectory, openOrigin, type Origin } from './stored-runs.ts';
import { namesOf, textOf } from './text-files.ts';

/** The number of latest steps whose median time is shown. The median ignores steps with a sample, which take longer. */
const timedSteps = 9;

const form = elementOf('settings', HTMLFormElement);
const text = elementOf('text', HTMLTextAreaElement);
const file = elementOf('file', HTMLInputElement);
const ranks = elementOf('ranks', HTMLSelectElement);
const strategy = elementOf('strategy', HTMLSelectElement);
const size = elementOf('size', HTMLSelectElement);
const steps = elementOf('steps', HTMLInputElement);
const saveEvery = elementOf('save-every', HTMLInputElement);
const checkpointFiles = elementOf('checkpoint-file', HTMLInputElement);
const train = elementOf('train', HTMLButtonElement);
const stop = elementOf('stop', HTMLButtonElement);
const end = elementOf('end', HTMLButtonElement);
const anew = elementOf('anew', HTMLButtonElement);
const checkpoints = new CheckpointList(goOnFrom);
const rankList = new RankList(elementOf('rank-list', HTMLElement));
const encoder = new TextEncoder();
/** The checkpoint from which the next run continues. */
let origin: Origin | undefined;

strategy.append(...strategyNames.map((name) => new Option(name)));
text.value = firstText;
describeText();
chooseStrategies();
showChart(bigramEntropy(encoder.encode(text.value)), steps.valueAsNumber);
void offerCheckpoints();

text.addEventListener('input', describeText);
ranks.addEventListener('change', chooseStrategies);
file.addEventListener('change', () => void readFiles());
checkpointFiles.addEventListener('change', () => void pickCheckpoint());
anew.addEventListener('click', beginAnew);
form.addEventListener('submit', (event) => {
  event.preventDefault();
  void trainModel();
});

/** Offers to save checkpoints. A browser without storage for this page can still train. */
async function offerCheckpoints(): Promise<void> {
  if (await checkpoints.refresh()) return;
  saveEvery.value = '0';
  saveEvery.disabled = true;
}

function show(id: string, value: string): void {
  elementOf(id, HTMLElement).textContent = value;
}

/** Shows a new chart in the place of the previous one. */
function showChart(guess: number, count: number, first = 1): LossChart {
  const chart = new LossChart(guess, count, first);
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

/** A single rank needs no strategy. */
function chooseStrategies(): void {
  strategy.disabled = ranks.value === '1';
}

async function readFiles(): Promise<void> {
  const files = [...(file.files ?? [])];
  if (files.length === 0) return;
  try {
    text.value = await textOf(files);
  } catch (error) {
    return say(messageOf(error), true);
  }
  describeText();
  say(`The text is that of ${namesOf(files)}.`);
}

async function pickCheckpoint(): Promise<void> {
  const files = [...(checkpointFiles.files ?? [])];
  if (files.length === 0) return;
  try {
    goOnFrom(await openOrigin(files), namesOf(files));
  } catch (error) {
    checkpoints.say(messageOf(error));
  }
}

/**
 * Prepares a run that continues from a checkpoint. Text, model and updates come from the checkpoint. The visitor may
 * change the number of ranks and the strategy.
 */
function goOnFrom(from: Origin, name: string): void {
  const { checkpoint, progress } = from;
  const isOver = checkpoint.step >= progress.steps;
  origin = from;
  text.value = progress.text;
  size.value = progress.size;
  size.disabled = true;
  steps.min = String(checkpoint.step + 1);
  steps.value = String(isOver ? checkpoint.step + progress.steps : progress.steps);
  describeText();
  show(
    'origin',
    `It goes on after update ${checkpoint.step} of ${name}${isOver ? ', its last one: choose how many more' : ''}.`,
  );
  train.textContent = `Go on after update ${checkpoint.step}`;
  anew.hidden = false;
  checkpoints.say('');
  train.focus();
}

function beginAnew(): void {
  origin = undefined;
  size.disabled = false;
  steps.min = '1';
  checkpointFiles.value = '';
  show('origin', 'It begins with new weights.');
  train.textContent = 'Train';
  // The other button is hidden while it has the focus, so the focus must move.
  train.focus();
  anew.hidden = true;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

async function trainModel(): Promise<void> {
  const bytes = encoder.encode(text.value);
  const settings = parseSettings({
    text: bytes,
    strategy: strategy.value,
    size: size.value,
    steps: steps.valueAsNumber,
    saveEvery: saveEvery.valueAsNumber,
  });
  const count = Number(ranks.value);
  const first = (origin?.checkpoint.step ?? 0) + 1;
  const chart = showChart(bigramEntropy(bytes), settings.steps, first);
  const times: number[] = [];
  /** The losses of steps that some ranks have not reported yet, by step. */
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
      runDirectory: newRunDirectory(),
      ...(origin === undefined ? {} : { resume: origin.source }),
      onCheckpoint: ({ step }) => {
        checkpoints.say(`Update ${step} is saved.`);
        void checkpoints.refresh();
      },
      onStep,
      onValue: (value) => {
        if (isSample(value)) show('sample', `after update ${value.step}:\n\n${value.text}`);
      },
      onEnd: (ended) => rankList.end(ended),
    });
    await follow(run);
  } catch (error) {
    say(messageOf(error), true);
  }
  setRunning(false);
  void checkpoints.refresh();
}

/** Follows a run until its last rank has ended. */
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
  stop.addEventListener('click', () => run.stop(), { signal });
  end.addEventListener('click', () => run.terminate(), { signal });
  say(`Training on ${run.size === 1 ? 'one rank' : `${run.size} ranks`}.`);
  const ends = await run.ended;
  over.abort();
  const failure = firstFailure(ends);
  if (failure !== undefined) say(failure, true);
  else if (ends.some(({ status: how }) => how === 'terminated')) say('Ended at once.');
  else say('Done.');
}

/** Returns the failure that is not a consequence of another one. */
function firstFailure(ends: readonly RankEnd[]): string | undefined {
  const failed = ends.filter(({ status: how }) => how === 'failed' || how === 'killed');
  const cause = failed.find(({ error }) => error?.name !== 'CollectiveAbortedError');
  if (cause === undefined) return failed[0]?.error?.message;
  return `Rank ${cause.rank} ${cause.error === undefined ? 'was killed' : `failed: ${cause.error.message}`}.`;
}

function setRunning(isRunning: boolean): void {
  for (const control of [train, anew, checkpointFiles]) control.disabled = isRunning;
  for (const button of [stop, end]) button.disabled = !isRunning;
  checkpoints.setRunning(isRunning);
}

/** Returns the number of bytes per second on which all ranks train. */
function rateOf(times: readonly number[]): string {
  const sorted = times.slice(-timedSteps).toSorted((a, b) => a - b);
  const median = sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
  return Math.round((batchSize * contextLength * 1000) / median).toLocaleString('en');
}
