import { appendFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describeValue } from '@shardwise/core/extend';
import { type checkpoints, ConfigError, SummaryWriter, TensorStateError } from 'shardwise';
import { stringify } from 'yaml';

/** Figures by name, such as `{ loss: 0.5 }`. */
export type TrackedValues = Readonly<Record<string, number>>;

/** A project, as `initTrackers` is told about it. */
export interface TrackedProject {
  readonly name: string;
  /** The settings of the run, such as its learning rate. */
  readonly config: Readonly<Record<string, checkpoints.JsonValue>>;
  /** The folder of the project: its name in `projectDir`. */
  readonly directory: string;
}

/** Keeps figures of a run. It is used on rank 0 alone. */
export interface Tracker {
  readonly name: string;
  /** `initTrackers` waits for it. */
  start?(project: TrackedProject): void | Promise<void>;
  log(values: TrackedValues, step: number): void | Promise<void>;
  /** `endTraining` waits for it. */
  finish?(): void | Promise<void>;
}

/** A tracker: one that has a name here, one of your own, or a function that takes the figures, whose name is its own. */
export type TrackerChoice = 'tensorboard' | 'csv' | Tracker | Tracker['log'];

const makers: Readonly<Record<string, () => Tracker>> = {
  tensorboard: tensorboardTracker,
  csv: csvTracker,
};

/** The tracker of a choice. Throws ConfigError for what is none. */
function trackerOf(choice: TrackerChoice): Tracker {
  if (typeof choice === 'function') return { name: choice.name, log: choice };
  if (typeof choice === 'string') {
    const make = Object.hasOwn(makers, choice) ? makers[choice] : undefined;
    if (make !== undefined) return make();
  } else if (typeof choice === 'object' && choice !== null && typeof choice.log === 'function') {
    return choice;
  }
  throw new ConfigError(
    {
      asked: `logWith ${describeValue(choice)}`,
      found: 'no tracker',
      todo: `Give ${Object.keys(makers).join(', ')}, a function (values, step) => …, or an object { name, log }`,
    },
    { tracker: choice },
  );
}

/** The trackers of an accelerator, on rank 0. Other ranks have none. */
export class Trackers {
  readonly #trackers: readonly Tracker[];
  readonly #isMain: boolean;
  #isStarted = false;
  #logged = 0;

  /** Throws ConfigError for what is no tracker. */
  constructor(choices: readonly TrackerChoice[], isMain: boolean) {
    this.#trackers = choices.map(trackerOf);
    this.#isMain = isMain;
  }

  async start(project: TrackedProject): Promise<void> {
    this.#isStarted = true;
    if (!this.#isMain) return;
    if (this.#trackers.length === 0) {
      console.log(`${project.name}: nothing is logged, because the Accelerator has no logWith`);
    }
    for (const tracker of this.#trackers) await tracker.start?.(project);
  }

  /** Throws TensorStateError before `start`, and ConfigError for values that are no numbers. */
  async log(values: TrackedValues, step: number = this.#logged): Promise<void> {
    if (!this.#isStarted) {
      throw new TensorStateError({
        asked: 'log() of an Accelerator',
        found: 'trackers that have not been started',
        todo: "Call await accelerator.initTrackers('project') before it",
      });
    }
    for (const [name, value] of Object.entries(values)) {
      if (typeof value === 'number') continue;
      throw new ConfigError(
        {
          asked: `to log ${name}`,
          found: describeValue(value),
          todo: 'Give a number, such as await loss.item()',
        },
        { name },
      );
    }
    this.#logged++;
    if (!this.#isMain) return;
    for (const tracker of this.#trackers) await tracker.log(values, step);
  }

  /** The tracker of this name. Throws ConfigError if there is none. */
  get(name: string): Tracker {
    const found = this.#trackers.find((tracker) => tracker.name === name);
    if (found !== undefined) return found;
    const names = this.#trackers.map((tracker) => tracker.name).join(', ');
    throw new ConfigError(
      {
        asked: `the tracker ${name}`,
        found: names === '' ? 'no trackers' : `trackers with the names ${names}`,
        todo: 'Name it in logWith',
      },
      { name },
    );
  }

  async finish(): Promise<void> {
    if (!this.#isMain || !this.#isStarted) return;
    for (const tracker of this.#trackers) await tracker.finish?.();
  }
}

/** An event file in the folder of the project, and the settings as `hparams.yml`. */
function tensorboardTracker(): Tracker {
  let writer: SummaryWriter | undefined;
  return {
    name: 'tensorboard',
    async start({ directory, config }) {
      writer = new SummaryWriter({ logDir: directory });
      await mkdir(directory, { recursive: true });
      if (Object.keys(config).length === 0) return;
      await writeFile(join(directory, 'hparams.yml'), stringify(config, { version: '1.1' }));
    },
    async log(values, step) {
      for (const [tag, value] of Object.entries(values)) await writer?.addScalar(tag, value, step);
    },
  };
}

/** `metrics.csv` in the folder of the project: a row for each figure, because steps may have different ones. */
function csvTracker(): Tracker {
  let path = '';
  return {
    name: 'csv',
    async start({ directory }) {
      await mkdir(directory, { recursive: true });
      path = join(directory, 'metrics.csv');
      await writeFile(path, 'step,name,value\n');
    },
    async log(values, step) {
      const rows = Object.entries(values).map(
        ([name, value]) => `${step},${csvField(name)},${value}\n`,
      );
      await appendFile(path, rows.join(''));
    },
  };
}

function csvField(text: string): string {
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
