import { createInterface } from 'node:readline';
import { singleGroup } from '@shardwise/collectives';
import { joinShmWorld } from '@shardwise/collectives/node';
import { generate } from '@shardwise/models';
import { fromPretrained } from '@shardwise/models/node';
import { autocast, cpu, dist, optim, setRank } from 'shardwise';
import { type BatchOptions, batchOf, promptsOf } from './batches.ts';
import { type ModelAnswer, rankTaskSchema, requestSchema } from './rank-task.ts';

// node bench/models/rank.ts TASK
// This process is a rank with a model of a folder. It answers each line of its input, which is a request, with a line.

const { folder, rank, ranks, threads, rows, length, world } = rankTaskSchema.parse(
  JSON.parse(process.argv[2] ?? 'null'),
);
const joined = world === null ? null : joinShmWorld(world, rank);
const group = joined?.group ?? singleGroup();
setRank({
  device: await cpu({
    threads,
    ...(joined === null ? {} : { memory: joined.memory, ...joined.region }),
  }),
  mesh: new dist.LineMesh('dp', group),
});
const model = await fromPretrained(folder);
const parallel = ranks > 1 ? await dist.parallelize(model, dist.ddp()) : model;
const isCausal = model.modelType === 'gpt2';
const batch: BatchOptions = {
  task: isCausal ? 'causal' : 'masked',
  vocabulary: Number(Reflect.get(model.config, 'vocabSize')),
  rows: rows / ranks,
  length,
};
let optimizer: optim.AdamW | undefined;
let step = 0;
console.log(JSON.stringify({ ready: true }));
for await (const line of createInterface({ input: process.stdin })) {
  const request = requestSchema.parse(JSON.parse(line));
  const answer = 'steps' in request ? await train(request) : await write(request);
  console.log(JSON.stringify(answer));
}
group.close();

async function train({
  steps,
  precision,
}: {
  readonly steps: number;
  readonly precision: 'f32' | 'bf16';
}): Promise<ModelAnswer> {
  model.train();
  optimizer ??= new optim.AdamW(model.parameters(), { lr: 1e-4, weightDecay: 0.01 });
  const cpuBefore = process.cpuUsage();
  const answer = {
    ms: Array<number>(),
    cpuMs: Array<number>(),
    losses: Array<number>(),
    tokens: [],
  };
  await group.barrier();
  for (let index = 0; index < steps; index++) {
    const start = performance.now();
    const { inputIds, labels } = batchOf(batch, step++, rank);
    optimizer.zeroGrad();
    const loss = autocast({ dtype: 'bf16', enabled: precision === 'bf16' }, () =>
      parallel.forward(inputIds, { labels }),
    );
    loss.backward();
    await optimizer.step();
    answer.losses.push(await loss.item());
    if (index === steps - 1) await group.barrier();
    answer.ms.push(performance.now() - start);
  }
  const { user, system } = process.cpuUsage(cpuBefore);
  answer.cpuMs.push((user + system) / 1000 / steps);
  return answer;
}

async function write({
  rows: count,
  tokens,
}: {
  readonly rows: number;
  readonly tokens: number;
}): Promise<ModelAnswer> {
  const prompts = promptsOf({ ...batch, rows: count });
  const cpuBefore = process.cpuUsage();
  const start = performance.now();
  const texts = await generate(parallel, prompts, { maxNewTokens: tokens });
  const ms = [performance.now() - start];
  const { user, system } = process.cpuUsage(cpuBefore);
  return { ms, cpuMs: [(user + system) / 1000], losses: [], tokens: texts };
}
