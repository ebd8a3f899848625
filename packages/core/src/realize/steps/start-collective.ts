import type { DeviceBuffer } from '../../spec/backend.ts';
import { count, record } from '../../timeline.ts';
import { issue, type Issued, type Message } from './communicate.ts';
import { bufferOf, copy, inputOf, locate, placeOf, type Run } from './run-memory.ts';
import type { CollectiveValue } from '../values/values.ts';

/**
 * Starts a collective without waiting for it, or for the device: the input is read while later programs are computed.
 */
export async function startCollective(
  run: Run,
  values: readonly number[],
  collective: CollectiveValue,
  start: number,
): Promise<Pick<Issued, 'done'>> {
  const message = await messageOf(run, values, collective);
  const { input, output } = message;
  const { called, done } = issue(run, collective, { ...message, identity: run.identityOf(values) });
  run.called = called;
  // The error is not lost: `done` rejects with it, too.
  called.catch(() => {});
  // If the device computes in host memory, no input is read, and the group is called before the next program runs.
  if (run.backend.map(output) !== undefined) await called;
  const finish = async (): Promise<void> => {
    await done;
    count('collectives', 1);
    const bytes = Math.max(input.byteLength, output.byteLength);
    count('collectiveBytes', bytes);
    const { axis } = collective.params;
    const ranks = run.mesh.group(axis).size;
    record('collective', collective.op, start, { bytes, axis, ranks });
  };
  return { done: finish() };
}

/**
 * The buffers that a collective reads and writes. A bucket is one message on every rank. Members that are not computed
 * directly into it, such as the zeros for parameters that only this rank did not use, are copied there.
 */
async function messageOf(
  run: Run,
  values: readonly number[],
  collective: CollectiveValue,
): Promise<Message> {
  const [first] = values;
  if (first === undefined) throw new RangeError('a collective of no values');
  if (collective.op === 'allToAllRows') {
    const { rowsOf } = await import('./rows-of.ts');
    return rowsOf(run, first);
  }
  if (values.length === 1) {
    const output = bufferOf(run, first);
    return {
      input: run.plan.memory.inPlace.has(first) ? output : bufferOf(run, inputOf(run.plan, first)),
      output,
    };
  }
  for (const id of values) {
    if (run.plan.memory.inPlace.has(id)) continue;
    await copy(run.backend, bufferOf(run, inputOf(run.plan, id)), bufferOf(run, id));
  }
  const whole = wholeBucket(run, values);
  return { input: whole, output: whole };
}

/** The bytes from the first byte of the first member to the last byte of the last member, with alignment gaps. */
function wholeBucket(run: Run, values: readonly number[]): DeviceBuffer {
  const places = values.map((id) => placeOf(run.plan, id));
  const [first] = places;
  const last = places.at(-1);
  if (first === undefined || last === undefined || first.kind === 'leaf' || last.kind === 'leaf') {
    throw new RangeError('a bucket without members');
  }
  const byteLength = last.byteOffset + last.byteLength - first.byteOffset;
  return locate(run, { ...first, byteLength });
}
