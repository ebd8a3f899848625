import { cpu } from '@shardwise/backend-cpu';
import type { RankContext } from '@shardwise/testing/ranks';
import { data, dist, fromArray, manualSeed, nn, noGrad, optim, setRank } from 'shardwise';
import { GPT } from '../../examples/gpt/model.ts';
import { textBatches } from '../text-batches.ts';
import type { Contestant, Job, Outcome } from './messages.ts';
import { threadLinks } from './thread-links.ts';

const VALIDATION_WINDOWS = 128;
const TENTHS = 10;

/** Trains by each contestant with each seed, over links that are slow on a clock of their own. */
export async function main({
  rank,
  world,
  data: job,
}: RankContext<dist.transports.ThreadsWorld, Job>): Promise<readonly Outcome[]> {
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region of rank ${rank}`);
  const links = dist.transports.shapeTransport(threadLinks(world, rank), job.link);
  const group = dist.createGroup(links);
  setRank({
    device: await cpu({ memory: world.memory, ...region }),
    mesh: new dist.LineMesh('dp', group),
  });
  const outcomes: Outcome[] = [];
  for (const seed of job.seeds) {
    for (const contestant of job.contestants) {
      outcomes.push(await train(job, contestant, seed, links));
      await group.barrier();
    }
  }
  return outcomes;
}

async function train(
  job: Job,
  { name, diloco }: Contestant,
  seed: number,
  links: dist.transports.ShapedTransport,
): Promise<Outcome> {
  const { rank, size } = links;
  const { steps, text, batchSize, learningRate } = job;
  manualSeed(seed);
  const model = new GPT(job.model);
  const own = diloco === null ? null : dist.diloco(diloco);
  const parallel = await dist.parallelize(model, own ?? dist.ddp());
  const optimizer = new optim.AdamW(model.parameters(), {
    lr: learningRate,
    betas: [0.9, 0.95],
    weightDecay: 0.1,
  });
  const warmup = Math.ceil(steps / 10);
  const schedule = optim.warmupSchedule(warmup, optim.cosineSchedule(steps - warmup, 0.1));
  const { contextLength } = job.model;
  const loader = textBatches(text.train, { contextLength, batchSize, seed, rank, size });
  const losses: number[] = [];
  const [before, started] = [links.sentBytes, links.seconds];
  for await (const { x, y } of loader) {
    for (const each of optimizer.paramGroups) each.lr = learningRate * schedule(losses.length + 1);
    optimizer.zeroGrad();
    const loss = nn.functional.crossEntropy(parallel.forward(fromArray(x)), fromArray(y));
    loss.backward();
    links.seconds += job.stepSeconds;
    await optimizer.step();
    losses.push(await loss.item());
    if (losses.length === steps) break;
  }
  const [sentBytes, seconds] = [links.sentBytes - before, links.seconds - started];
  await own?.outer.synchronize();
  // All ranks have the same values now.
  const validation = rank === 0 ? await validationLoss(model, job) : null;
  parallel.detach();
  const tenths = Math.min(TENTHS, losses.length);
  const place = (tenth: number): number => Math.floor((tenth * losses.length) / tenths);
  const training = Array.from({ length: tenths }, (_, at) =>
    mean(losses.slice(place(at), place(at + 1))),
  );
  return { contestant: name, seed, training, validation, sentBytes, seconds };
}

/** The mean loss of windows that are spread over the text. They are the same for all models. */
async function validationLoss(
  model: GPT,
  { text, model: { contextLength }, batchSize }: Job,
): Promise<number> {
  const dataset = new data.TextDataset(text.validation, { contextLength });
  const place = (index: number): number =>
    Math.floor((index * (dataset.length - 1)) / (VALIDATION_WINDOWS - 1));
  model.eval();
  const losses: number[] = [];
  for (let first = 0; first < VALIDATION_WINDOWS; first += batchSize) {
    const samples = Array.from({ length: batchSize }, (_, at) => dataset.get(place(first + at)));
    const { x, y } = data.collate(samples);
    const loss = noGrad(() =>
      nn.functional.crossEntropy(model.forward(fromArray(x)), fromArray(y)),
    );
    losses.push(await loss.item());
  }
  return mean(losses);
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
