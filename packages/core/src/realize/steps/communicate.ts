import type { Backend, DeviceBuffer } from '../../spec/backend.ts';
import type { DType } from '../../spec/dtype.ts';
import type {
  CallIdentity,
  CallOptions,
  ProcessGroup,
  TypedBytes,
} from '../../spec/process-group.ts';
import { unnamed } from '../../graph/collective-identity.ts';
import { issuedNow } from '../../graph/step-settings.ts';
import type { Run } from './run-memory.ts';
import type { CollectiveValue } from '../values/values.ts';

/** The bytes of a device buffer, in host memory. */
interface HostView {
  readonly typed: TypedBytes;
  /** Copies changes back to the device. */
  readonly commit: () => void;
  /** Gives the memory back when its bytes are no longer needed. */
  readonly free: () => void;
}

function nothing(): void {}

/** The view of a buffer. If the device computes in host memory, it is the buffer's own memory. */
function hostView(
  backend: Backend,
  buffer: DeviceBuffer,
  dtype: DType,
  read: boolean,
): HostView | Promise<HostView> {
  const bytes = backend.map(buffer);
  return bytes === undefined
    ? copyOnHost(backend, buffer, dtype, read)
    : { typed: { bytes, dtype }, commit: nothing, free: nothing };
}

/** If `read` is true, the device is asked for the bytes before anything is awaited. */
async function copyOnHost(
  backend: Backend,
  buffer: DeviceBuffer,
  dtype: DType,
  read: boolean,
): Promise<HostView> {
  const memory = backend.hostMemory?.(buffer.byteLength);
  const bytes = read
    ? await backend.read(buffer, memory?.bytes)
    : (memory?.bytes ?? new Uint8Array(buffer.byteLength));
  return {
    typed: { bytes, dtype },
    commit: () => backend.write(buffer, bytes),
    free: () => memory?.free(),
  };
}

/** The buffers that a collective reads and writes. In place, both are the same. Otherwise the input is not changed. */
export interface Message {
  readonly input: DeviceBuffer;
  readonly output: DeviceBuffer;
  /** The numbers of elements for each rank and from each rank, if they differ. */
  readonly splits?: { readonly inputSplits: number[]; readonly outputSplits: number[] };
}

/** The options of a call of the graph. */
type GraphCallOptions = Partial<NonNullable<Message['splits']>> & {
  readonly identity: CallIdentity;
};

/** A message, and what it is. */
interface IdentifiedMessage extends Message {
  readonly identity: CallIdentity | undefined;
}

/** A collective of the graph that has been issued. */
export interface Issued {
  /**
   * Settles when the group has been called. If the device has memory of its own, the group is called when the input has
   * been read, and later programs are submitted meanwhile. Rejects if an earlier collective was not called, because
   * peers would take this one for it.
   */
  readonly called: Promise<unknown>;
  /** Settles when the result is on the device. */
  readonly done: Promise<void>;
}

/**
 * Issues one collective of the graph on device memory. The group is called after `before`, which settles when the
 * previous collective was called, because all ranks call collectives in program order.
 */
export function issue(
  { backend, mesh, called: before }: Pick<Run, 'backend' | 'mesh' | 'called'>,
  collective: CollectiveValue,
  { input, output, splits, identity = unnamed }: IdentifiedMessage,
): Issued {
  const group = mesh.group(collective.params.axis);
  const isInPlace = input === output;
  const target = hostView(backend, output, collective.dtype, isInPlace);
  const source = isInPlace ? target : hostView(backend, input, collective.dtype, true);
  const options = { identity: issuedNow(identity, collective.params.axis), ...splits };
  const calling = call({ source, target }, before, (views) =>
    communicate(group, collective, views, options),
  );
  return { called: calling, done: ended(calling) };
}

interface Called {
  readonly done: Promise<void>;
}

/** The views of the input and the output of a collective. In place, both are the same. */
interface Views {
  readonly source: HostView;
  readonly target: HostView;
}

async function call(
  { source, target }: { readonly [View in keyof Views]: HostView | Promise<HostView> },
  before: Promise<unknown>,
  start: (views: Views) => Promise<void>,
): Promise<Called> {
  // Both are awaited together, so that a rejection of one is not unhandled while the other is awaited.
  if (target instanceof Promise) await Promise.all([target, Promise.resolve(source)]);
  const views = { source: await source, target: await target };
  await before;
  return { done: finish(start(views), views) };
}

/** If a collective fails, its memory is not given back, because peers may still write to it. */
async function finish(communicating: Promise<void>, { source, target }: Views): Promise<void> {
  await communicating;
  target.commit();
  target.free();
  if (source !== target) source.free();
}

async function ended(calling: Promise<Called>): Promise<void> {
  const { done } = await calling;
  await done;
}

/** Calls the group before anything is awaited. */
async function communicate(
  group: ProcessGroup,
  collective: CollectiveValue,
  { source, target }: Views,
  options: GraphCallOptions,
): Promise<void> {
  const { op, params } = collective;
  const { identity } = options;
  switch (op) {
    case 'allReduce':
      copyInto(source, target);
      await group.allReduce(target.typed, params.reduce, { identity, ...passOf(params) });
      break;
    case 'broadcast':
      copyInto(source, target);
      await group.broadcast(target.typed, params.root, { identity });
      break;
    case 'reduce':
      copyInto(source, target);
      await group.reduce(target.typed, params.root, 'sum', { identity });
      if (group.rank !== params.root) target.typed.bytes.fill(0);
      break;
    case 'allGather':
      await group.allGather(source.typed, target.typed, { identity });
      break;
    case 'reduceScatter':
      await group.reduceScatter(source.typed, target.typed, params.reduce, {
        identity,
        ...passOf(params),
      });
      break;
    case 'allToAll':
      await group.allToAll(source.typed, target.typed, { identity });
      break;
    case 'allToAllRows':
      await group.allToAll(source.typed, target.typed, options);
      break;
    case 'sendRecv':
      await sendRecv(group, params.destination, source.typed, target.typed, { identity });
      break;
    case 'localChunk':
    case 'reinterpret':
      throw new TypeError(`${op} moves no data`);
    default:
      collective satisfies never;
  }
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
  options: CallOptions,
): Promise<void> {
  const to = destination[group.rank] ?? -1;
  const from = destination.indexOf(group.rank);
  if (to === group.rank) target.bytes.set(source.bytes);
  else {
    if (from < 0) target.bytes.fill(0);
    await Promise.all([
      to < 0 ? undefined : group.send(source, to, options),
      from < 0 ? undefined : group.recv(target, from, options),
    ]);
  }
}
