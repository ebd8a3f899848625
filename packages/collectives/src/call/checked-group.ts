import {
  type CallOptions,
  type CallOrder,
  ConfigError,
  dtypes,
  type InputOptions,
  type ProcessGroup,
  type ReduceOp,
  type TypedBytes,
} from '@shardwise/core/spec';
import {
  checkBuffer,
  checkDisjoint,
  checkInput,
  checkParts,
  checkPeer,
  checkRank,
  checkReduce,
  checkSameDType,
  checkSplits,
  checkTag,
} from './checks.ts';
import {
  type AllToAllOptions,
  DEFAULT_LIMITS,
  type Limits,
  limitsOf,
  type TransferOptions,
} from './call-options.ts';
import { Counters } from './counters.ts';
import type { GroupRecording } from './group-recording.ts';
import type { GroupCall, Transfer } from './calls.ts';
import type { CallRecord, Member, Operation } from './record.ts';

const EMPTY = new Uint8Array(0);

/** Takes the calls of one kind, in the order of the program. A call is issued before `issue` returns. */
interface Issuer<Call> {
  issue(call: Call, limits: Limits): Promise<void>;
}

/**
 * What all process groups share: arguments are checked and become data before anything is communicated. Issuing
 * is synchronous, so that calls have the order of the program.
 */
export abstract class CheckedGroup implements ProcessGroup {
  readonly specificationVersion = 1;
  readonly rank: number;
  readonly size: number;
  /** For each rank of this group, its rank in the world. */
  readonly worldRanks: readonly number[];
  readonly counters: Counters = new Counters();
  #recording: GroupRecording | undefined;
  /** How calls are issued. Groups that are split from each other have it in common. */
  #order: { current: CallOrder | null } = { current: null };
  #limits: Limits = DEFAULT_LIMITS;

  /** Without `worldRanks` the group is the world. */
  constructor(rank: number, size: number, worldRanks?: readonly number[]) {
    this.rank = rank;
    this.size = size;
    this.worldRanks = worldRanks ?? Array.from({ length: size }, (_, member) => member);
  }

  /** Records the calls of this group, and of groups split from it, from now on. */
  recordTo(recording: GroupRecording): void {
    this.#recording = recording;
  }

  /**
   * Sets the time limit in milliseconds of later calls of this group, and of groups split from it later, that give no
   * other limit.
   */
  limitTo(timeoutMs: number): void {
    this.#limits = { timeoutMs, signal: undefined };
  }

  orderCalls(order: CallOrder | null): void {
    if (order === null) this.#order = { current: null };
    else this.#order.current = order;
  }

  protected abstract get collectives(): Issuer<GroupCall>;
  protected abstract get transfers(): Issuer<Transfer>;
  protected abstract divide(
    member: { readonly color: number | undefined; readonly key: number },
    limits: Limits,
  ): Promise<ProcessGroup | undefined>;

  abstract close(reason?: Error): void;

  allReduce(buffer: TypedBytes, op: ReduceOp, options?: InputOptions): Promise<void> {
    return issued(() => {
      const elements = checkBuffer('allReduce', 'buffer', buffer);
      checkReduce('allReduce', op, buffer.dtype);
      fillFrom('allReduce', options?.input, buffer);
      const record = recordOf('allReduce', { buffer, elements, reduce: op, options });
      return this.#start(record, buffer.bytes, buffer.bytes, options);
    });
  }

  allGather(input: TypedBytes, output: TypedBytes, options?: CallOptions): Promise<void> {
    return issued(() => {
      checkParts(
        'allGather',
        { name: 'input', buffer: input },
        { name: 'output', buffer: output },
        this,
      );
      const record = recordOf('allGather', { buffer: input, options });
      return this.#start(record, input.bytes, output.bytes, options);
    });
  }

  reduceScatter(
    input: TypedBytes,
    output: TypedBytes,
    op: ReduceOp,
    options?: CallOptions,
  ): Promise<void> {
    return issued(() => {
      checkParts(
        'reduceScatter',
        { name: 'output', buffer: output },
        { name: 'input', buffer: input },
        this,
      );
      checkReduce('reduceScatter', op, input.dtype);
      const record = recordOf('reduceScatter', { buffer: output, reduce: op, options });
      return this.#start(record, input.bytes, output.bytes, options);
    });
  }

  allToAll(input: TypedBytes, output: TypedBytes, options?: AllToAllOptions): Promise<void> {
    return issued(() => {
      const elements = checkBuffer('allToAll', 'input', input);
      const outputElements = checkBuffer('allToAll', 'output', output);
      checkSameDType('allToAll', input.dtype, output.dtype);
      checkDisjoint('allToAll', input, output);
      const splits = checkSplits(
        { elements, splits: options?.inputSplits },
        { elements: outputElements, splits: options?.outputSplits },
        this.size,
      );
      const record = { ...recordOf('allToAll', { buffer: input, elements, options }), splits };
      return this.#start(record, input.bytes, output.bytes, options);
    });
  }

  broadcast(buffer: TypedBytes, root: number, options?: InputOptions): Promise<void> {
    return issued(() => {
      checkBuffer('broadcast', 'buffer', buffer);
      checkRank('broadcast', 'root', root, this.size);
      const isRoot = root === this.rank;
      if (isRoot) fillFrom('broadcast', options?.input, buffer);
      const record = recordOf('broadcast', { buffer, root, options });
      return this.#start(
        record,
        isRoot ? buffer.bytes : EMPTY,
        isRoot ? EMPTY : buffer.bytes,
        options,
      );
    });
  }

  reduce(buffer: TypedBytes, root: number, op: ReduceOp, options?: InputOptions): Promise<void> {
    return issued(() => {
      checkBuffer('reduce', 'buffer', buffer);
      checkRank('reduce', 'root', root, this.size);
      checkReduce('reduce', op, buffer.dtype);
      const record = recordOf('reduce', { buffer, root, reduce: op, options });
      if (root === this.rank) {
        fillFrom('reduce', options?.input, buffer);
        return this.#start(record, buffer.bytes, buffer.bytes, options);
      }
      const input = options?.input ?? buffer;
      checkInput('reduce', input, buffer);
      return this.#start(record, input.bytes, EMPTY, options);
    });
  }

  gather(
    input: TypedBytes,
    output: TypedBytes | undefined,
    root: number,
    options?: CallOptions,
  ): Promise<void> {
    return issued(() => {
      checkBuffer('gather', 'input', input);
      checkRank('gather', 'root', root, this.size);
      this.#checkRootOnly('gather', 'output', output, root);
      if (output !== undefined) {
        checkParts(
          'gather',
          { name: 'input', buffer: input },
          { name: 'output', buffer: output },
          this,
        );
      }
      const record = recordOf('gather', { buffer: input, root, options });
      return this.#start(record, input.bytes, output?.bytes ?? EMPTY, options);
    });
  }

  scatter(
    input: TypedBytes | undefined,
    output: TypedBytes,
    root: number,
    options?: CallOptions,
  ): Promise<void> {
    return issued(() => {
      checkBuffer('scatter', 'output', output);
      checkRank('scatter', 'root', root, this.size);
      this.#checkRootOnly('scatter', 'input', input, root);
      if (input !== undefined) {
        checkParts(
          'scatter',
          { name: 'output', buffer: output },
          { name: 'input', buffer: input },
          this,
        );
      }
      const record = recordOf('scatter', { buffer: output, root, options });
      return this.#start(record, input?.bytes ?? EMPTY, output.bytes, options);
    });
  }

  barrier(options?: CallOptions): Promise<void> {
    return issued(() => {
      const isNamed = options?.identity !== undefined;
      const record = isNamed ? recordOf('barrier', { options }) : BARRIER;
      return this.#start(record, EMPTY, EMPTY, options);
    });
  }

  async split(
    color: number | undefined,
    key: number,
    options?: CallOptions,
  ): Promise<ProcessGroup | undefined> {
    checkNumber('color', color ?? 0);
    checkNumber('key', key);
    const limits = limitsOf('split', options, this.#limits);
    const recording = this.#recording;
    const name = recording?.partName(color) ?? '';
    const part = await this.divide({ color, key }, limits);
    if (part instanceof CheckedGroup) {
      part.#limits = this.#limits;
      part.#order = this.#order;
      if (recording !== undefined) {
        part.recordTo(recording.part(name, part.rank, part.worldRanks));
      }
    }
    return part;
  }

  send(buffer: TypedBytes, to: number, options?: TransferOptions): Promise<void> {
    return issued(() => {
      return this.#startTransfer(
        {
          operation: 'send',
          buffer,
          peer: to,
          tag: options?.tag ?? 0,
          identity: options?.identity,
        },
        options,
      );
    });
  }

  recv(buffer: TypedBytes, from: number, options?: TransferOptions): Promise<void> {
    return issued(() => {
      return this.#startTransfer(
        {
          operation: 'recv',
          buffer,
          peer: from,
          tag: options?.tag ?? 0,
          identity: options?.identity,
        },
        options,
      );
    });
  }

  /** Tells all ranks' colours and keys to every rank. Every `divide` begins with this. */
  protected async exchange(member: Member, limits: Limits): Promise<readonly Member[]> {
    const record = { ...recordOf('split', {}), member };
    const met: Member[] = [];
    const onAgreed = (records: readonly CallRecord[]): void => {
      met.push(...records.flatMap((peer) => peer.member ?? []));
    };
    const issue = (): Promise<void> =>
      this.#run({ record, input: EMPTY, output: EMPTY, onAgreed }, limits);
    await this.#inOrder(undefined, issue);
    return met;
  }

  #start(
    record: CallRecord,
    input: Uint8Array,
    output: Uint8Array,
    options: CallOptions | undefined,
  ): Promise<void> {
    const limits = limitsOf(record.operation, options, this.#limits);
    const issue = (): Promise<void> => this.#run({ record, input, output }, limits);
    return this.#inOrder(options, issue);
  }

  #inOrder(options: CallOptions | undefined, issue: () => Promise<void>): Promise<void> {
    const { current } = this.#order;
    return current === null || options?.identity !== undefined ? issue() : current(issue);
  }

  #run(call: GroupCall, limits: Limits): Promise<void> {
    this.counters.addCall(call.record);
    const recording = this.#recording;
    if (recording === undefined) return this.collectives.issue(call, limits);
    const recorded = recording.collective(call, limits.timeoutMs);
    const onStarted = (): void => recording.start(recorded);
    const done = this.collectives.issue({ ...call, onStarted }, limits);
    void recording.follow(recorded, done);
    return done;
  }

  #startTransfer(transfer: Transfer, options: CallOptions | undefined): Promise<void> {
    checkBuffer(transfer.operation, 'buffer', transfer.buffer);
    checkPeer(transfer.operation, transfer.peer, this.rank, this.size);
    checkTag(transfer.operation, transfer.tag);
    const limits = limitsOf(transfer.operation, options, this.#limits);
    return this.#inOrder(options, () => {
      this.counters.add(transfer.operation, transfer.buffer.bytes.byteLength);
      const recorded = this.#recording?.transfer(transfer, limits.timeoutMs);
      const done = this.transfers.issue(transfer, limits);
      if (recorded !== undefined) void this.#recording?.follow(recorded, done);
      return done;
    });
  }

  #checkRootOnly(
    operation: string,
    name: string,
    buffer: TypedBytes | undefined,
    root: number,
  ): void {
    const isRoot = root === this.rank;
    if (isRoot === (buffer !== undefined)) return;
    throw new ConfigError(
      {
        asked: `${operation} on rank ${this.rank} with root ${root}`,
        found: `${name} is ${buffer === undefined ? 'missing' : 'given'}`,
        todo: `Pass ${name} on root and undefined on the other ranks`,
      },
      { operation, rank: this.rank, root },
    );
  }
}

const BARRIER: CallRecord = recordOf('barrier', {});

function recordOf(
  operation: Operation,
  call: {
    readonly buffer?: TypedBytes;
    readonly elements?: number;
    readonly root?: number;
    readonly reduce?: ReduceOp;
    readonly options?: CallOptions | undefined;
  },
): CallRecord {
  const { buffer } = call;
  return {
    operation,
    dtype: buffer?.dtype,
    elements:
      call.elements ??
      (buffer === undefined ? 0 : buffer.bytes.byteLength / dtypes[buffer.dtype].bytes),
    root: call.root,
    reduce: call.reduce,
    pass: call.options?.pass,
    identity: call.options?.identity,
    splits: undefined,
    member: undefined,
  };
}

/** Returns a rejected promise if `issue` throws, so that a call which is refused at once fails like any other. */
function issued(issue: () => Promise<void>): Promise<void> {
  try {
    return issue();
  } catch (error) {
    return Promise.reject(error);
  }
}

function checkNumber(name: string, value: number): void {
  if (Number.isSafeInteger(value)) return;
  throw new ConfigError(
    {
      asked: `split with ${name} ${value}`,
      found: 'it is not an integer',
      todo: 'Pass an integer',
    },
    { [name]: value },
  );
}

/**
 * Copies the input into the buffer, so that groups have only calls in place to carry out. This costs one pass
 * over the values.
 */
function fillFrom(operation: string, input: TypedBytes | undefined, buffer: TypedBytes): void {
  if (input === undefined) return;
  checkInput(operation, input, buffer);
  buffer.bytes.set(input.bytes);
}
