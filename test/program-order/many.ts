import { createThreadsWorld } from '@shardwise/collectives';
import { settleRanks } from '@shardwise/testing/node';
import type { Outcome } from './run-programs.ts';

const [ranks = 2, from = 1, count = 100, device = 'interpreter', timeout = 560000] = process.argv
  .slice(2)
  .map((x) => (Number.isNaN(Number(x)) ? x : Number(x))) as [
  number,
  number,
  number,
  string,
  number,
];
const outcomes = await settleRanks(ranks, new URL('./run-programs.ts', import.meta.url), {
  world: createThreadsWorld({ size: ranks, arenaBytes: 16 * 1024 * 1024 }),
  data: { from, count, device },
  timeoutMs: timeout,
});
let [read, refused, bad] = [0, 0, 0];
for (const [rank, outcome] of outcomes.entries()) {
  if (outcome.status === 'rejected') {
    console.log(`rank ${rank}:`, outcome.error.message.slice(0, 1500));
    bad++;
    continue;
  }
  for (const each of outcome.value as readonly Outcome[]) {
    read += each.read;
    refused += each.refused;
    if (each.differs !== null && bad++ < 10)
      console.log(`rank ${rank} program ${each.seed}: ${each.differs.slice(0, 300)}`);
  }
}
console.log({ read, refused, bad });
process.exit(bad > 0 ? 1 : 0);
