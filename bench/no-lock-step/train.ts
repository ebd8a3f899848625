import { dist, fromArray, manualSeed, nn, optim } from 'shardwise';
import { GPT } from '../../examples/gpt/model.ts';
import { textBatches } from '../text-batches.ts';
import { type Attendance, updateTimes } from './attendance.ts';
import type { Contestant, Job, Outcome } from './job.ts';
import { RoundMembers } from './round-members.ts';
import { validationLoss } from './validation-loss.ts';

const TENTHS = 10;

interface Training {
  readonly job: Job;
  readonly contestant: Contestant;
  readonly seed: number;
  readonly links: dist.transports.ShapedTransport;
  /** All ranks. */
  readonly group: dist.ProcessGroup;
  /** Null: the ranks are the same all the time. */
  readonly attendance: Attendance | null;
}

/** Trains on this rank. */
export async function train(training: Training): Promise<Outcome> {
  const { job, contestant, seed, links } = training;
  const { rank, size } = links;
  const { text, batchSize, learningRate, stepSeconds } = job;
  manualSeed(seed);
  const model = new GPT(job.model);
  const own = dilocoOf(training);
  const parallel = await dist.parallelize(model, own ?? dist.ddp());
  const optimizer = new optim.AdamW(model.parameters(), {
    lr: learningRate,
    betas: [0.9, 0.95],
    weightDecay: 0.1,
  });
  const times = timesOf(training);
  // All ranks make their last update together.
  const end = Math.floor((times.at(-1) ?? 0) + 1);
  const warmup = Math.ceil(end / 10);
  const schedule = optim.warmupSchedule(warmup, optim.cosineSchedule(end - warmup));
  const { contextLength } = job.model;
  const loader = textBatches(text.train, { contextLength, batchSize, seed, rank, size });
  const losses: number[] = [];
  const [before, started] = [links.sentBytes, links.seconds];
  for await (const { x, y } of loader) {
    const time = times[losses.length];
    if (time === undefined) break;
    for (const each of optimizer.paramGroups) each.lr = learningRate * schedule(time + 1);
    optimizer.zeroGrad();
    const loss = nn.functional.crossEntropy(parallel.forward(fromArray(x)), fromArray(y));
    loss.backward();
    links.seconds += stepSeconds;
    await optimizer.step();
    losses.push(await loss.item());
  }
  if (losses.length < times.length) throw new RangeError(`a text of ${losses.length} steps`);
  const [sentBytes, seconds] = [links.sentBytes - before, links.seconds - started];
  const validation = await validationLoss(model, job);
  parallel.detach();
  const { length } = losses;
  const place = (tenth: number): number => Math.floor((tenth * length) / TENTHS);
  return {
    contestant: contestant.name,
    seed,
    training: Array.from({ length: TENTHS }, (_, at) =>
      mean(losses.slice(place(at), place(at + 1))),
    ),
    updates: length,
    validation,
    sentBytes,
    seconds,
  };
}

function dilocoOf({ contestant: { diloco }, group, attendance }: Training) {
  if (diloco === null) return null;
  if (attendance === null) return dist.diloco(diloco);
  return dist.diloco({ ...diloco, members: new RoundMembers(group, attendance) });
}

/** The place of each update of this rank in the training, from 0 to the number of steps. */
function timesOf({ job, contestant: { diloco }, links, attendance }: Training): readonly number[] {
  if (attendance === null || diloco === null)
    return Array.from({ length: job.steps }, (_, at) => at);
  return updateTimes(attendance, links, diloco.every);
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
