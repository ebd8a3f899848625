import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { createGroup } from '@shardwise/collectives';
import { connectStore, joinShmWorld, mpiGroup, tcpTransport } from '@shardwise/collectives/node';
import { jobSchema, type Job } from './job.ts';
import { processTaskSchema, RANK_VARIABLE, TASK_VARIABLE, type RankTask } from './process-task.ts';
import { MAX_BYTES, RankWork } from './rank-work.ts';
import { StreamWork } from './stream-work.ts';

// This is one process of a contestant. Its environment says which, and its jobs come over a socket.

interface Work {
  run(job: Job): Promise<number>;
}

const { controlPath, task } = processTaskSchema.parse(
  JSON.parse(process.env[TASK_VARIABLE] ?? 'null'),
);
const work = await join(task, Number(process.env[RANK_VARIABLE]));
const socket = connect(controlPath);
for await (const line of createInterface({ input: socket })) {
  const seconds = await work.run(jobSchema.parse(JSON.parse(line)));
  socket.write(`${JSON.stringify({ seconds })}\n`);
}
process.exit();

async function join(task: RankTask, rank: number): Promise<Work> {
  if (task.kind === 'shm') {
    const { group, memory, region } = joinShmWorld(task.world, rank);
    return new RankWork(group, new Uint8Array(memory.buffer, region.byteOffset, 2 * MAX_BYTES));
  }
  if (task.kind === 'mpi') return new RankWork(await mpiGroup(), new Uint8Array(2 * MAX_BYTES));
  const { kind, port, secret, size } = task;
  const store = await connectStore({ host: '127.0.0.1', port, secret });
  if (kind === 'stream') return new StreamWork(size).join(store, rank);
  const group = createGroup(await tcpTransport({ store, rank, size, secret }));
  return new RankWork(group, new Uint8Array(2 * MAX_BYTES));
}
