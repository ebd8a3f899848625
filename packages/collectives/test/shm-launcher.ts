import { spawn } from 'node:child_process';
import { createShmWorld, joinShmWorld } from '@shardwise/collectives/node';

// A launcher whose two ranks share its output. The launcher stays until it is killed. Each rank stays until its call
// ends.

const [rank, world] = process.argv.slice(2);

if (rank === undefined || world === undefined) {
  const made = createShmWorld({ size: 3, arenaBytes: 65536 });
  for (const child of ['0', '1']) {
    const args = [...process.execArgv, import.meta.filename, child, JSON.stringify(made)];
    spawn(process.execPath, args, { stdio: 'inherit' });
  }
} else {
  const { group } = joinShmWorld(JSON.parse(world), Number(rank));
  const done = group.barrier();
  process.stdout.write('waiting\n');
  await done.catch((error: unknown) => process.stdout.write(`${String(error)}\n`));
}
