import { appendFile, mkdir, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';
import { encodeRecord, scalarEvent, versionEvent } from './tensorboard-events.ts';

/** Options of `SummaryWriter`. */
export interface SummaryWriterOptions {
  /** The folder of the event file, which is made. TensorBoard shows it with `tensorboard --logdir`. */
  readonly logDir: string;
}

const writerRules: OptionRules<SummaryWriterOptions> = { logDir: option.required(option.text) };

const scalarRules: OptionRules<{ tag: string; scalarValue: number; globalStep: number }> = {
  tag: option.required(option.text),
  // TensorBoard shows NaN and infinities.
  scalarValue: option.required({
    fits: (value): value is number => typeof value === 'number',
    expected: 'a number, such as await loss.item()',
  }),
  globalStep: option.required(option.count),
};

/**
 * Writes scalars to an event file of TensorBoard, as torch.utils.tensorboard.SummaryWriter. The file is made with the first
 * one. Await each call before the next one.
 */
export class SummaryWriter {
  readonly #file: EventFile;

  /** Throws ConfigError. */
  constructor(options: SummaryWriterOptions) {
    checkOptions('SummaryWriter', options, writerRules);
    this.#file = new EventFile(options.logDir);
  }

  /** Throws ConfigError for a tag that is no text or a step that is no count, and the errors of the file system. */
  async addScalar(tag: string, scalarValue: number, globalStep: number): Promise<void> {
    checkOptions('addScalar()', { tag, scalarValue, globalStep }, scalarRules);
    await this.#file.write(Date.now() / 1000, globalStep, { [tag]: scalarValue });
  }
}

/** An event file, which is made in a folder with its first event. */
export class EventFile {
  readonly #directory: string;
  #path: string | undefined;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Writes the scalars of a step. `seconds` are since the epoch. */
  async write(
    seconds: number,
    step: number,
    scalars: Readonly<Record<string, number>>,
  ): Promise<void> {
    this.#path ??= await newFile(this.#directory, seconds);
    await appendFile(this.#path, encodeRecord(scalarEvent(seconds, step, scalars)));
  }
}

/** Makes a file whose name no other writer has. */
async function newFile(directory: string, seconds: number): Promise<string> {
  await mkdir(directory, { recursive: true });
  const start = `events.out.tfevents.${String(Math.floor(seconds)).padStart(10, '0')}.${hostname()}.${process.pid}`;
  for (let number = 0; ; number++) {
    const path = join(directory, `${start}.${number}`);
    try {
      await writeFile(path, encodeRecord(versionEvent(seconds)), { flag: 'wx' });
      return path;
    } catch (error) {
      const isTaken = error instanceof Error && 'code' in error && error.code === 'EEXIST';
      if (!isTaken) throw error;
    }
  }
}
