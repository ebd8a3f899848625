import { ddp, fsdp, nn, parallelize, type Strategy, zero } from 'shardwise';
import type { GPT } from '../examples/gpt/model.ts';
import { joinBenchWorld, serveRounds } from './serve-rounds.ts';
import { buildModel, Training } from './training.ts';
import { largeWorkload } from './workload.ts';

// This thread is one rank of one contestant of the strategies benchmark.

const strategies: Readonly<Record<string, () => Strategy>> = {
  ddp: () => ddp(),
  'zero-1': () => zero({ stage: 1 }),
  'zero-2': () => zero({ stage: 2 }),
  'zero-3': () => zero({ stage: 3 }),
  fsdp: () => fsdp(),
  'fsdp-checkpointing': () => fsdp(),
};

const { rank, group, contestant, batch, precision } = await joinBenchWorld();
const strategy = strategies[contestant];
if (strategy === undefined) throw new RangeError(`no contestant ${contestant}`);
const model = buildModel(largeWorkload);
if (contestant === 'fsdp-checkpointing') checkpointBlocks(model);
const parallel = await parallelize(model, strategy());
serveRounds(group, {
  together: new Training(parallel, model.parameters(), { rank, batch, precision }),
});

function checkpointBlocks({ blocks }: GPT): void {
  for (const block of blocks) {
    const forward = block.forward.bind(block);
    block.forward = (x) => nn.checkpoint(() => forward(x));
  }
}
