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
import type { CallObserver } from './call-observer.ts';
import type { GroupCall, Transfer } from './calls.ts';
import type { CallRecord, Member, Operation } from './record.ts';

const EMPTY = new Uint8Array(0);

/** What groups that are split from each other have in common. A group may have an order of its own. */
interface Family {
  /** How calls are issued. Null: as they are made. */
  order: CallOrder | null;
  readonly calls: { observer: CallObserver | null };
}

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
  /** The same name on all ranks of the group. */
  name = 'world';
  #splits = 0;
  #family: Family = { order: null, calls: { observer: null } };
  #limits: Limits = DEFAULT_LIMITS;

  /** Without `worldRanks` the group is the world. */
  constructor(rank: number, size: number, worldRanks?: readonly number[]) {
    this.rank = rank;
    this.size = size;
    this.worldRanks = worldRanks ?? Array.from({ length: size }, (_, member) => member);
  }

  /** Who observes the calls of this group and of all groups that have a split in common with it. */
  get observed(): Family['calls'] {
    return this.#family.calls;
  }

  /**
   * Sets the time limit in milliseconds of later calls of this group, and of groups split from it later, that give no
   * other limit.
   */
  limitTo(timeoutMs: number): void {
    this.#limits = { timeoutMs, signal: undefined };
  }

  orderCalls(order: CallOrder | null): void {
    if (order === null) this.#family = { ...this.#family, order };
    else this.#family.order = order;
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
      const { bytes } = buffer;
      return this.#start(record, isRoot ? bytes : EMPTY, isRoot ? EMPTY : bytes, options);
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
    const name = `${this.name}/${this.#splits++}:${color ?? 'none'}`;
    const part = await this.divide({ color, key }, limits);
    if (part instanceof CheckedGroup) {
      part.name = name;
      part.#limits = this.#limits;
      part.#family = this.#family;
      this.observed.observer?.group(part);
    }
    return part;
  }

  send(buffer: TypedBytes, to: number, options?: TransferOptions): Promise<void> {
    return issued(() => this.#startTransfer('send', buffer, to, options));
  }

  recv(buffer: TypedBytes, from: number, options?: TransferOptions): Promise<void> {
    return issued(() => this.#startTransfer('recv', buffer, from, options));
  }

  /** Tells all ranks' colours and keys to every rank. Every `divide` begins with this. */
  protected async exchange(member: Member, limits: Limits): Promise<readonly Member[]> {
    const record = { ...recordOf('split', {}), member };
    const met: Member[] = [];
    const onAgreed = (records: readonly CallRecord[]): void => {
      met.push(...records.flatMap((peer) => peer.member ?? []));
    };
    const call = { record, input: EMPTY, output: EMPTY, onAgreed };
    await this.#inOrder(undefined, () => this.#run(call, limits));
    return met;
  }

  #start(
    record: CallRecord,
    input: Uint8Array,
    output: Uint8Array,
    options: CallOptions | undefined,
  ): Promise<void> {
    const limits = limitsOf(record.operation, options, this.#limits);
    return this.#inOrder(options, () => this.#run({ record, input, output }, limits));
  }

  #inOrder(options: CallOptions | undefined, issue: () => Promise<void>): Promise<void> {
    const { order } = this.#family;
    return order === null || options?.identity !== undefined ? issue() : order(issue);
  }

  #run(call: GroupCall, limits: Limits): Promise<void> {
    this.counters.addCall(call.record);
    const follower = this.observed.observer?.collective(this, call, limits.timeoutMs);
    const onStarted = follower?.started;
    const done = this.collectives.issue(follower ? { ...call, onStarted } : call, limits);
    void follower?.follow(done);
    return done;
  }

  #startTransfer(
    operation: Transfer['operation'],
    buffer: TypedBytes,
    peer: number,
    options: TransferOptions | undefined,
  ): Promise<void> {
    const tag = options?.tag ?? 0;
    checkBuffer(operation, 'buffer', buffer);
    checkPeer(operation, peer, this.rank, this.size);
    checkTag(operation, tag);
    const transfer: Transfer = { operation, buffer, peer, tag, identity: options?.identity };
    const limits = limitsOf(operation, options, this.#limits);
    return this.#inOrder(options, () => {
      this.counters.add(operation, buffer.bytes.byteLength);
      const follower = this.observed.observer?.transfer(this, transfer, limits.timeoutMs);
      const done = this.transfers.issue(transfer, limits);
      void follower?.follow(done);
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
