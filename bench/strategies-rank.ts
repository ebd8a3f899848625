import { dist, nn } from 'shardwise';
import type { GPT } from '../examples/gpt/model.ts';
import { joinBenchWorld, serveRounds } from './serve-rounds.ts';
import { buildModel, Training } from './training.ts';
import { largeWorkload } from './workload.ts';

// This thread is one rank of one contestant of the strategies benchmark.

const strategies: Readonly<Record<string, () => dist.Strategy>> = {
  ddp: () => dist.ddp(),
  'zero-1': () => dist.zero({ stage: 1 }),
  'zero-2': () => dist.zero({ stage: 2 }),
  'zero-3': () => dist.zero({ stage: 3 }),
  fsdp: () => dist.fsdp(),
  'fsdp-checkpointing': () => dist.fsdp(),
};

const { rank, group, contestant, batch, precision } = await joinBenchWorld();
const strategy = strategies[contestant];
if (strategy === undefined) throw new RangeError(`no contestant ${contestant}`);
const model = buildModel(largeWorkload);
if (contestant === 'fsdp-checkpointing') checkpointBlocks(model);
const parallel = await dist.parallelize(model, strategy());
serveRounds(group, {
  together: new Training(parallel, model.parameters(), { rank, batch, precision }),
});

function checkpointBlocks({ blocks }: GPT): void {
  for (const block of blocks) {
    const forward = block.forward.bind(block);
    block.forward = (x) => nn.checkpoint(() => forward(x));
  }
}
