import { connect } from 'node:net';
import { mpiGroup } from '@shardwise/collectives/node';
import { reportOf, type RankMessage } from '@shardwise/testing/ranks';
import { FrameReader, sendFrame } from './mpi-frames.ts';
import type { MpiTask } from './mpi-pool.ts';

// MpiPool runs this in each process. It makes a new group of all ranks for each task and calls the task's function.
const [path = ''] = process.argv.slice(2);
const socket = connect(path);
// MPI is initialized before the first task, and the rank is reported.
const first = await mpiGroup();
sendFrame(socket, first.rank);
first.close();
new FrameReader(socket).on('frame', (task: MpiTask) => void answer(task));
socket.on('error', () => {}).on('close', () => process.exit());

async function answer(task: MpiTask): Promise<void> {
  sendFrame(socket, await outcomeOf(task));
}

async function outcomeOf({ moduleUrl, name, data }: MpiTask): Promise<RankMessage> {
  const group = await mpiGroup();
  try {
    const module: Readonly<Record<string, unknown>> = await import(moduleUrl);
    const main = module[name];
    if (typeof main !== 'function') throw new TypeError(`${moduleUrl} exports no ${name}`);
    return { status: 'fulfilled', value: await main(group, data) };
  } catch (error) {
    return { status: 'rejected', report: reportOf(error) };
  } finally {
    group.close();
  }
}
