import { startRanks } from 'shardwise/browser';
import { withDirectLinks } from 'shardwise/together';
import type { MemberResult, MemberTask } from './train-member.ts';

const task: MemberTask = await (await fetch('/tasks')).json();
const result = Promise.withResolvers<MemberResult>();
const run = await startRanks({
  size: 1,
  script: () =>
    withDirectLinks(new Worker(new URL('./rank.ts', import.meta.url), { type: 'module' })),
  device: 'wasm',
  arenaBytes: 2 ** 24,
  data: task,
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the rank of this test sends it
  onValue: (value) => result.resolve(value as MemberResult),
});
const [end] = await run.ended;
if (end?.error !== undefined) throw new Error(`${end.error.name}: ${end.error.message}`);
await fetch('/result', { method: 'POST', body: JSON.stringify(await result.promise) });
