import { CollectiveError } from '@shardwise/core/spec';
import type { Handle, MpiAbi, NativeOp, NativeType } from './mpi-abi.ts';
import type { MpiLibrary } from './mpi-library.ts';

/** The length of a status in C ints, which is enough for every library. */
const STATUS_INTS = 16;
const ERROR_TEXT_BYTES = 8192;
/** MPI_THREAD_FUNNELED, which is the same in every library. Other threads may compute, but never call MPI. */
const FUNNELED = 1;
/** MPI_ANY_TAG, which is the same in every library. */
const ANY_TAG = -1;

/** The memory of one handle, which MPI writes. */
export type HandleMemory = BigInt64Array<ArrayBuffer> | Int32Array<ArrayBuffer>;

/** The error of a call that MPI has refused. */
export class MpiError extends CollectiveError {
  override readonly name: string = 'MpiError';
  override readonly code = 'COLLECTIVE';
  /** Whether more bytes came than there was room for. */
  readonly isTruncated: boolean;

  constructor(call: string, text: string, isTruncated: boolean) {
    super(
      {
        asked: `${call} of MPI`,
        found: `it answers ${text}`,
        todo: 'Look for the first failure among the ranks, and at what mpirun prints',
      },
      { call },
    );
    this.isTruncated = isTruncated;
  }
}

/**
 * The functions of MPI that a group uses. Memory that is passed to send, receive and collectives belongs to MPI
 * until `test` says that the request is done. All functions throw MpiError.
 */
export class MpiCalls {
  readonly abi: MpiAbi;
  /** The rank that sent what the last `probe` or `test` found, and the number of bytes. */
  readonly #status = ints(STATUS_INTS);
  readonly #flag = ints(1);
  readonly #number = ints(1);
  readonly #functions: ReturnType<typeof functionsOf>;

  constructor(library: MpiLibrary) {
    this.abi = library.abi;
    this.#functions = functionsOf(library);
  }

  /** Initializes MPI if nobody has done so yet. Returns whether this call did it. */
  initialize(): boolean {
    this.#check('MPI_Initialized', this.#functions.initialized(this.#flag));
    if (this.#flag[0] !== 0) return false;
    this.#check('MPI_Init_thread', this.#functions.initThread(null, null, FUNNELED, this.#number));
    // MPICH reports some errors of other communicators there, and would end the job.
    this.#returnErrors(this.abi.world);
    return true;
  }

  /** Ends MPI in this process. It waits for the other ranks. */
  finalize(): void {
    this.#check('MPI_Finalize', this.#functions.finalize());
  }

  /** Ends every process of the job, and does not return. */
  abort(exitCode: number): void {
    this.#functions.abort(this.abi.world, exitCode);
  }

  rank(communicator: Handle): number {
    this.#check('MPI_Comm_rank', this.#functions.commRank(communicator, this.#number));
    return this.#number[0] ?? 0;
  }

  size(communicator: Handle): number {
    this.#check('MPI_Comm_size', this.#functions.commSize(communicator, this.#number));
    return this.#number[0] ?? 0;
  }

  /**
   * A copy of the communicator whose errors are returned. Like all calls that make a communicator, it waits for the
   * other ranks.
   */
  duplicate(communicator: Handle): Handle {
    const made = this.handleMemory();
    this.#check('MPI_Comm_dup', this.#functions.commDup(communicator, made));
    const handle = made[0] ?? 0;
    this.#returnErrors(handle);
    return handle;
  }

  /** The communicator of the ranks with this colour, in the order of their keys. Undefined without a colour. */
  split(communicator: Handle, color: number | undefined, key: number): Handle | undefined {
    const made = this.handleMemory();
    const code = this.#functions.commSplit(
      communicator,
      color ?? this.abi.undefinedColor,
      key,
      made,
    );
    this.#check('MPI_Comm_split', code);
    return color === undefined ? undefined : (made[0] ?? 0);
  }

  /** The communicator of the ranks on this host. */
  splitHost(communicator: Handle): Handle {
    const made = this.handleMemory();
    const { sharedHost, nullInfo } = this.abi;
    const code = this.#functions.commSplitType(communicator, sharedHost, 0, nullInfo, made);
    this.#check('MPI_Comm_split_type', code);
    return made[0] ?? 0;
  }

  free(communicator: Handle): void {
    const memory = this.handleMemory();
    if (memory instanceof BigInt64Array) memory[0] = BigInt(communicator);
    else memory[0] = Number(communicator);
    this.#check('MPI_Comm_free', this.#functions.commFree(memory));
  }

  /** Begins to gather every rank's `input` into `output`. `input` may be this rank's part of `output`. */
  allGather(
    input: Uint8Array,
    output: Uint8Array,
    communicator: Handle,
    request: HandleMemory,
  ): void {
    const { byte, inPlace } = this.abi;
    const length = input.byteLength;
    const end = output.byteOffset + output.byteLength;
    const isPart =
      input.buffer === output.buffer &&
      input.byteOffset >= output.byteOffset &&
      input.byteOffset < end;
    const from = isPart ? inPlace : input;
    this.#check(
      'MPI_Iallgather',
      this.#functions.iallgather(from, length, byte, output, length, byte, communicator, request),
    );
  }

  /** Begins to send `root`'s bytes to all ranks. */
  broadcast(bytes: Uint8Array, root: number, communicator: Handle, request: HandleMemory): void {
    const { byte } = this.abi;
    this.#check(
      'MPI_Ibcast',
      this.#functions.ibcast(bytes, bytes.byteLength, byte, root, communicator, request),
    );
  }

  send(
    bytes: Uint8Array,
    to: number,
    tag: number,
    communicator: Handle,
    request: HandleMemory,
  ): void {
    this.#check(
      'MPI_Isend',
      this.#functions.isend(bytes, bytes.byteLength, this.abi.byte, to, tag, communicator, request),
    );
  }

  receive(
    bytes: Uint8Array,
    from: number,
    tag: number,
    communicator: Handle,
    request: HandleMemory,
  ): void {
    const { byte } = this.abi;
    this.#check(
      'MPI_Irecv',
      this.#functions.irecv(bytes, bytes.byteLength, byte, from, tag, communicator, request),
    );
  }

  /** Whether the request is done. MPI works on all requests while it is asked. */
  test(request: HandleMemory): boolean {
    this.#check('MPI_Test', this.#functions.test(request, this.#flag, this.abi.ignoredStatus));
    return this.#flag[0] !== 0;
  }

  /** Does what `test` does for a receive. Returns the number of bytes that have come once the receive is done. */
  testReceive(request: HandleMemory): number | undefined {
    this.#check('MPI_Test', this.#functions.test(request, this.#flag, this.#status));
    return this.#flag[0] === 0 ? undefined : this.#receivedBytes();
  }

  /** Withdraws a receive that has not begun. `test` must still be asked until it is done. */
  cancel(request: HandleMemory): void {
    this.#check('MPI_Cancel', this.#functions.cancel(request));
  }

  /** The next message, from any rank, that has come and was not received. Without `tag` it may have any tag. */
  probe(
    communicator: Handle,
    tag: number = ANY_TAG,
  ): { readonly from: number; readonly byteLength: number } | undefined {
    const { anySource, sourceIndex } = this.abi;
    const code = this.#functions.iprobe(anySource, tag, communicator, this.#flag, this.#status);
    this.#check('MPI_Iprobe', code);
    if (this.#flag[0] === 0) return undefined;
    return { from: this.#status[sourceIndex] ?? 0, byteLength: this.#receivedBytes() };
  }

  /** Replaces the values of `into` by `from` op `into`. The bits do not depend on which of them comes first. */
  reduceLocal(
    from: Uint8Array,
    into: Uint8Array,
    elements: number,
    type: NativeType,
    op: NativeOp,
  ): void {
    const { types, ops } = this.abi;
    this.#check(
      'MPI_Reduce_local',
      this.#functions.reduceLocal(from, into, elements, types[type], ops[op]),
    );
  }

  /** The memory for the handle of a new request or communicator. */
  handleMemory(): HandleMemory {
    return this.abi.handle === 'int' ? ints(1) : new BigInt64Array(new ArrayBuffer(8));
  }

  #receivedBytes(): number {
    const code = this.#functions.getCount(this.#status, this.abi.byte, this.#number);
    this.#check('MPI_Get_count', code);
    return this.#number[0] ?? 0;
  }

  #returnErrors(communicator: Handle): void {
    const code = this.#functions.setErrorHandler(communicator, this.abi.errorsReturn);
    this.#check('MPI_Comm_set_errhandler', code);
  }

  #check(call: string, code: unknown): void {
    if (code === 0) return;
    const text = new Uint8Array(new ArrayBuffer(ERROR_TEXT_BYTES));
    this.#functions.errorString(code, text, this.#number);
    const length = Math.min(this.#number[0] ?? 0, ERROR_TEXT_BYTES);
    this.#functions.errorClass(code, this.#number);
    const isTruncated = this.#number[0] === this.abi.truncated;
    throw new MpiError(call, new TextDecoder().decode(text.subarray(0, length)), isTruncated);
  }
}

/** An array in a buffer of its own, which the garbage collector does not move. */
function ints(count: number): Int32Array<ArrayBuffer> {
  return new Int32Array(new ArrayBuffer(4 * count));
}

function functionsOf({ func }: MpiLibrary) {
  const message = 'void *bytes, int count, HANDLE type, int rank, int tag, HANDLE comm';
  return {
    initialized: func('int MPI_Initialized(void *flag)'),
    initThread: func('int MPI_Init_thread(void *count, void *values, int level, void *provided)'),
    finalize: func('int MPI_Finalize()'),
    abort: func('int MPI_Abort(HANDLE comm, int code)'),
    errorString: func('int MPI_Error_string(int code, void *text, void *length)'),
    errorClass: func('int MPI_Error_class(int code, void *class)'),
    setErrorHandler: func('int MPI_Comm_set_errhandler(HANDLE comm, HANDLE handler)'),
    commRank: func('int MPI_Comm_rank(HANDLE comm, void *rank)'),
    commSize: func('int MPI_Comm_size(HANDLE comm, void *size)'),
    commDup: func('int MPI_Comm_dup(HANDLE comm, void *made)'),
    commSplit: func('int MPI_Comm_split(HANDLE comm, int color, int key, void *made)'),
    commSplitType: func(
      'int MPI_Comm_split_type(HANDLE comm, int type, int key, HANDLE info, void *made)',
    ),
    commFree: func('int MPI_Comm_free(void *comm)'),
    iallgather: func(
      'int MPI_Iallgather(void *input, int inputCount, HANDLE inputType, void *output, int outputCount, HANDLE outputType, HANDLE comm, void *request)',
    ),
    ibcast: func(
      'int MPI_Ibcast(void *bytes, int count, HANDLE type, int root, HANDLE comm, void *request)',
    ),
    isend: func(`int MPI_Isend(${message}, void *request)`),
    irecv: func(`int MPI_Irecv(${message}, void *request)`),
    test: func('int MPI_Test(void *request, void *flag, void *status)'),
    cancel: func('int MPI_Cancel(void *request)'),
    iprobe: func('int MPI_Iprobe(int rank, int tag, HANDLE comm, void *flag, void *status)'),
    getCount: func('int MPI_Get_count(void *status, HANDLE type, void *count)'),
    reduceLocal: func(
      'int MPI_Reduce_local(void *from, void *into, int count, HANDLE type, HANDLE op)',
    ),
  };
}
