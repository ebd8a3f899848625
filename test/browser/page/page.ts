import { checkpoints, type PageRun, startRanks } from 'shardwise/browser';
import type { EncodedFile, Task, TaskReport } from './task.ts';

/** The number of steps that every rank must report before the page acts. */
const actsAfter = 3;

const decode = ({ name, bytes }: EncodedFile): File => new File([Uint8Array.from(bytes)], name);

async function encode(file: File): Promise<EncodedFile> {
  return { name: file.name, bytes: [...new Uint8Array(await file.arrayBuffer())] };
}

async function sourceOf(resume: NonNullable<Task['resume']>): Promise<string | File | File[]> {
  if (resume.kind === 'files') return resume.files.map(decode);
  return resume.kind === 'storage'
    ? resume.directory
    : checkpoints.checkpointFile(resume.directory);
}

async function perform(task: Task): Promise<TaskReport> {
  const losses = Array.from({ length: task.size }, (): number[] => []);
  let run: PageRun | undefined;
  let actedAt: number | undefined;
  const act = (): void => {
    if (actedAt !== undefined || losses.some(({ length }) => length < actsAfter)) return;
    actedAt = performance.now();
    if (task.act === 'kill rank 1') run?.kill(1);
    else if (task.act === 'terminate') run?.terminate();
    else if (task.act === 'stop') run?.stop();
  };
  const { directory = 'shardwise', save, resume } = task;
  const heard: TaskReport['heard'][number][] = [];
  run = await startRanks({
    size: task.size,
    script: () => new Worker(new URL('./rank.ts', import.meta.url), { type: 'module' }),
    device: task.device,
    arenaBytes: 2 ** 24,
    data: task,
    runDirectory: directory,
    ...(resume === undefined ? {} : { resume: await sourceOf(resume) }),
    onCheckpoint: ({ step, directory: folder }) => heard.push({ step, directory: folder }),
    onStep: ({ rank, loss }) => {
      losses[rank]?.push(loss ?? Number.NaN);
      act();
    },
  });
  const { transport, device, ended } = run;
  const ends = await ended;
  return {
    transport: transport.kind,
    transportReason: transport.reason,
    device: device.kind,
    deviceReason: device.reason,
    losses,
    ends: ends.map(({ status, error }) => ({
      status,
      name: error?.name,
      message: error?.message,
      abortedBy: error?.fields['abortedBy'],
    })),
    report: {
      steps: run.report.history.points.length,
      loss: run.report.latest?.loss,
      html: await run.reportHtml(),
    },
    stored: save === undefined ? [] : await checkpoints.list(directory),
    archive:
      save === undefined ? undefined : await encode(await checkpoints.checkpointFile(directory)),
    heard,
    endedAfterMs: performance.now() - (actedAt ?? performance.now()),
  };
}

const tasks: readonly Task[] = await (await fetch('/tasks')).json();
const reports: TaskReport[] = [];
for (const task of tasks) reports.push(await perform(task));
await fetch('/result', { method: 'POST', body: JSON.stringify(reports) });
