import { createThreadsWorld } from '@shardwise/collectives';
import { settleRanks } from '@shardwise/testing/node';
const [ranks = 2, from = 1, count = 1] = process.argv.slice(2).map(Number);
const outcomes = await settleRanks(ranks, new URL('./run-programs.ts', import.meta.url), { world: createThreadsWorld({ size: ranks, arenaBytes: 1 << 24 }), data: { from, count, device: 'interpreter' }, timeoutMs: 9000 });
for (const each of outcomes) console.log(each.status === 'rejected' ? each.error.message.slice(0, 900) : JSON.stringify(each.value).slice(0, 200));
process.exit(0);
