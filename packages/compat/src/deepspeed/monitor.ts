import { appendFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Tensor } from '@shardwise/core/extend';
import { SummaryWriter } from 'shardwise';
import type { PartTimes } from './measurement.ts';
import type { MonitorSection, Settings } from './settings.ts';

/** Figures by their tags, such as `Train/Samples/train_loss`. */
type Figures = Readonly<Record<string, number>>;

/** Takes the figures of an update. `samples` is the number of rows that updates have seen. */
export type Monitor = (samples: number, figures: Figures) => Promise<void>;

/** The monitors of the sections tensorboard and csv_monitor. Only rank 0 writes. */
export function monitorsOf(settings: Settings, rank: number): readonly Monitor[] {
  if (rank !== 0) return [];
  const { tensorboard, csv_monitor: csv } = settings;
  return [
    ...(tensorboard.enabled ? [tensorboardMonitor(folderOf(tensorboard))] : []),
    ...(csv.enabled ? [csvMonitor(folderOf(csv))] : []),
  ];
}

function folderOf({ output_path: path, job_name: name }: MonitorSection): string {
  return join(path, name);
}

function tensorboardMonitor(logDir: string): Monitor {
  const writer = new SummaryWriter({ logDir });
  return async (samples, figures) => {
    for (const [tag, value] of Object.entries(figures)) await writer.addScalar(tag, value, samples);
  };
}

/** A file for each tag, with the rows and the ends of lines that Python's csv writes. */
function csvMonitor(folder: string): Monitor {
  const begun = new Set<string>();
  return async (samples, figures) => {
    for (const [tag, value] of Object.entries(figures)) {
      const path = join(folder, `${tag.replaceAll(/[/ ]/g, '_')}.csv`);
      const row = `${samples},${value}\r\n`;
      if (begun.has(path)) {
        await appendFile(path, row);
        continue;
      }
      begun.add(path);
      await mkdir(folder, { recursive: true });
      const head = `step,${tag.split('/').at(-1) ?? tag}\r\n`;
      // A run that continues adds to the file, as in DeepSpeed.
      await writeFile(path, `${head}${row}`, { flag: 'a' });
    }
  };
}

/** What monitors are told of an update: the mean of its losses (each of shape []), and the rate of the first group. */
export async function figuresOf(
  losses: readonly Tensor[],
  [rate = Number.NaN]: readonly number[],
  lossScale: number | undefined,
  times: PartTimes | undefined,
): Promise<Figures> {
  let sum = 0;
  for (const loss of losses) sum += await loss.item();
  return {
    'Train/Samples/train_loss': sum / losses.length,
    'Train/Samples/lr': rate,
    ...(lossScale === undefined ? {} : { 'Train/Samples/loss_scale': lossScale }),
    ...(times === undefined
      ? {}
      : {
          'Train/Samples/elapsed_time_ms_forward': times.forward,
          'Train/Samples/elapsed_time_ms_backward': times.backward,
          'Train/Samples/elapsed_time_ms_step': times.step,
        }),
  };
}
