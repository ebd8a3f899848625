import type { Backend, DeviceBuffer } from '../spec/backend.ts';
import type { DType } from '../spec/dtype.ts';
import type { Mesh } from '../spec/mesh.ts';
import type { CallOptions, ProcessGroup, TypedBytes } from '../spec/process-group.ts';
import type { CollectiveValue } from './values.ts';

/** Host bytes of a device buffer, and how to bring changes back. */
interface HostView {
  readonly typed: TypedBytes;
  readonly commit: () => void;
}

async function hostView(
  backend: Backend,
  buffer: DeviceBuffer,
  dtype: DType,
  read: boolean,
): Promise<HostView> {
  const mapped = backend.map(buffer);
  if (mapped !== undefined) return { typed: { bytes: mapped, dtype }, commit: () => {} };
  const bytes = read ? await backend.read(buffer) : new Uint8Array(buffer.byteLength);
  return { typed: { bytes, dtype }, commit: () => backend.write(buffer, bytes) };
}

/** What a collective reads and writes. In place, both are the same buffer; otherwise the input is left as it is. */
export interface Message {
  readonly input: DeviceBuffer;
  readonly output: DeviceBuffer;
  /** Elements for each rank, and of each, where they differ. */
  readonly splits?: { readonly inputSplits: number[]; readonly outputSplits: number[] };
}

/** A collective that the group knows of; `done` settles when the result is on the device. */
export interface Issued {
  readonly done: Promise<void>;
}

/** Issues one collective of the graph on device memory. */
export async function issue(
  backend: Backend,
  mesh: Mesh,
  collective: CollectiveValue,
  { input, output, splits }: Message,
): Promise<Issued> {
  const group = mesh.group(collective.params.axis);
  const target = await hostView(backend, output, collective.dtype, input === output);
  const source = input === output ? target : await hostView(backend, input, collective.dtype, true);
  return { done: communicate(group, collective, source, target, splits) };
}

/** Calls the group before anything is awaited. */
async function communicate(
  group: ProcessGroup,
  collective: CollectiveValue,
  source: HostView,
  target: HostView,
  splits: Message['splits'],
): Promise<void> {
  const { op, params } = collective;
  switch (op) {
    case 'allReduce':
      copyInto(source, target);
      await group.allReduce(target.typed, params.reduce, passOf(params));
      break;
    case 'broadcast':
      copyInto(source, target);
      await group.broadcast(target.typed, params.root);
      break;
    case 'reduce':
      copyInto(source, target);
      await group.reduce(target.typed, params.root, 'sum');
      if (group.rank !== params.root) target.typed.bytes.fill(0);
      break;
    case 'allGather':
      await group.allGather(source.typed, target.typed);
      break;
    case 'reduceScatter':
      await group.reduceScatter(source.typed, target.typed, params.reduce, passOf(params));
      break;
    case 'allToAll':
      await group.allToAll(source.typed, target.typed);
      break;
    case 'allToAllRows':
      await group.allToAll(source.typed, target.typed, splits);
      break;
    case 'sendRecv':
      await sendRecv(group, params.destination, source.typed, target.typed);
      break;
    case 'localChunk':
    case 'reinterpret':
      throw new TypeError(`${op} moves no data`);
    default:
      collective satisfies never;
  }
  target.commit();
}

function passOf({ pass }: { readonly pass: number }): CallOptions {
  return pass === 0 ? {} : { pass };
}

function copyInto(source: HostView, target: HostView): void {
  if (source !== target) target.typed.bytes.set(source.typed.bytes);
}

async function sendRecv(
  group: ProcessGroup,
  destination: readonly number[],
  source: TypedBytes,
  target: TypedBytes,
): Promise<void> {
  const to = destination[group.rank] ?? -1;
  const from = destination.indexOf(group.rank);
  if (to === group.rank) target.bytes.set(source.bytes);
  else {
    if (from < 0) target.bytes.fill(0);
    await Promise.all([
      to < 0 ? undefined : group.send(source, to),
      from < 0 ? undefined : group.recv(target, from),
    ]);
  }
}
