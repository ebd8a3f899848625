import { cpu } from '@shardwise/backend-cpu';
import { onRanks } from '@shardwise/testing/node';
import { dist, setRank } from 'shardwise';
import { attendanceOf } from './attendance.ts';
import type { Contestant, Job, Outcome } from './job.ts';
import { train } from './train.ts';

/** What the ranks of a contestant have after all their trainings. */
export interface Summary {
  readonly contestant: string;
  /** The validation loss of each seed, in nats a byte, and their mean. */
  readonly validation: readonly number[];
  readonly meanValidation: number;
  /** The mean training losses over all ranks in tenths of their updates, for each seed. */
  readonly training: readonly (readonly number[])[];
  /** The tokens on which all ranks have trained, for each seed. */
  readonly tokens: readonly number[];
  /** The most bytes that a rank has sent, divided by the steps of `ddp`. */
  readonly bytesPerStep: number;
  /** The seconds of the training on the clock of the links, divided by the steps of `ddp`. */
  readonly secondsPerStep: number;
  /** How many times the bytes and the time of the first contestant are those of this one. */
  readonly timesFewerBytes: number;
  readonly timesFaster: number;
  /** The distance of the mean loss from that of the first contestant, relative to it. */
  readonly lossAboveFirst: number;
}

/** What the large model takes of a rank's arena, and what each sequence of a batch takes at most. */
const MODEL_BYTES: number = 64 << 20;
const SEQUENCE_BYTES: number = 4 << 20;

/** Trains by each contestant with each seed, over links that are slow on a clock of their own. All ranks are in this thread. */
export async function compare(job: Job, ranks: number): Promise<readonly Summary[]> {
  const outcomes: Outcome[] = [];
  for (const seed of job.seeds) {
    for (const contestant of job.contestants) {
      outcomes.push(...(await trainAll(job, contestant, seed, ranks)));
    }
  }
  const own = job.contestants.map((contestant) => summaryOf(contestant, outcomes, job));
  const [first] = own;
  if (first === undefined) throw new RangeError('no contestants');
  return own.map((each) => ({
    ...each,
    timesFewerBytes: first.bytesPerStep / each.bytesPerStep,
    timesFaster: first.secondsPerStep / each.secondsPerStep,
    lossAboveFirst: each.meanValidation / first.meanValidation - 1,
  }));
}

async function trainAll(
  job: Job,
  contestant: Contestant,
  seed: number,
  ranks: number,
): Promise<readonly Outcome[]> {
  const attendance = attendanceOf(contestant, job.steps, ranks, seed);
  const transports = dist.transports.createLoopbackTransports(ranks);
  return onRanks(
    ranks,
    async ({ rank, device }) => {
      const [transport] = transports.slice(rank);
      if (transport === undefined) throw new RangeError(`no transport of rank ${rank}`);
      const links = dist.transports.shapeTransport(transport, job.link);
      const group = dist.createGroup(links);
      // A member is a rank of its own, which meets the others in rounds only.
      const own = attendance === null ? group : dist.singleGroup();
      setRank({ device, mesh: new dist.LineMesh('dp', own) });
      return train({ job, contestant, seed, links, group, attendance });
    },
    { createDevice: () => cpu({ byteLength: MODEL_BYTES + job.batchSize * SEQUENCE_BYTES }) },
  );
}

function summaryOf(
  { name }: Contestant,
  outcomes: readonly Outcome[],
  { steps, seeds, batchSize, model: { contextLength } }: Job,
): Omit<Summary, 'timesFewerBytes' | 'timesFaster' | 'lossAboveFirst'> {
  const all = outcomes.filter(({ contestant }) => contestant === name);
  const bySeed = seeds.map((seed) => all.filter((each) => each.seed === seed));
  const validation = bySeed.map((each) => commonLoss(name, each));
  return {
    contestant: name,
    validation,
    meanValidation: mean(validation),
    training: bySeed.map((outcomes) =>
      (outcomes[0]?.training ?? []).map((_, tenth) =>
        mean(outcomes.map(({ training }) => training[tenth] ?? NaN)),
      ),
    ),
    tokens: bySeed.map(
      (outcomes) => sum(outcomes.map(({ updates }) => updates)) * batchSize * contextLength,
    ),
    bytesPerStep: Math.max(...all.map(({ sentBytes }) => sentBytes)) / steps,
    secondsPerStep: Math.max(...all.map(({ seconds }) => seconds)) / steps,
  };
}

/** The loss of the model, which is that of each rank. */
function commonLoss(name: string, outcomes: readonly Outcome[]): number {
  const [loss = NaN, ...others] = new Set(outcomes.map(({ validation }) => validation));
  if (others.length > 0) throw new RangeError(`ranks end with different models: ${name}`);
  return loss;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function mean(values: readonly number[]): number {
  return sum(values) / values.length;
}
