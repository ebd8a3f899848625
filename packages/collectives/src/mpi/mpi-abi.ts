import type { DType, ReduceOp } from '@shardwise/core/spec';

/** How MPI refers to a communicator, a type or an operation: by an address or by a number. */
export type Handle = bigint | number;

/** The types that MPI reduces to the same bits as every group. */
export type NativeType = 'f64' | 'f32' | 'i64' | 'i32' | 'u8';
export type NativeOp = 'sum' | 'product' | 'min' | 'max' | 'and' | 'or' | 'xor';

/** The definitions of a library's mpi.h that this package uses. */
export interface MpiAbi {
  readonly name: 'Open MPI' | 'MPICH';
  /** The C type of a handle. */
  readonly handle: 'void *' | 'int';
  readonly world: Handle;
  readonly byte: Handle;
  readonly types: Readonly<Record<NativeType, Handle>>;
  readonly ops: Readonly<Record<NativeOp, Handle>>;
  readonly errorsReturn: Handle;
  readonly nullInfo: Handle;
  /** The pointer MPI_IN_PLACE. */
  readonly inPlace: bigint;
  /** The pointer MPI_STATUS_IGNORE. */
  readonly ignoredStatus: bigint | null;
  /** The place of MPI_SOURCE in a status, counted in C ints. */
  readonly sourceIndex: number;
  readonly anySource: number;
  readonly undefinedColor: number;
  /** MPI_COMM_TYPE_SHARED. */
  readonly sharedHost: number;
  /** The class of errors MPI_ERR_TRUNCATE. */
  readonly truncated: number;
}

/** The interface of Open MPI 4 and 5, whose handles are addresses of the library's symbols. */
export function openMpiAbi(symbol: (name: string) => bigint): MpiAbi {
  return {
    name: 'Open MPI',
    handle: 'void *',
    world: symbol('ompi_mpi_comm_world'),
    byte: symbol('ompi_mpi_byte'),
    types: {
      f64: symbol('ompi_mpi_double'),
      f32: symbol('ompi_mpi_float'),
      i64: symbol('ompi_mpi_int64_t'),
      i32: symbol('ompi_mpi_int32_t'),
      u8: symbol('ompi_mpi_uint8_t'),
    },
    ops: {
      sum: symbol('ompi_mpi_op_sum'),
      product: symbol('ompi_mpi_op_prod'),
      min: symbol('ompi_mpi_op_min'),
      max: symbol('ompi_mpi_op_max'),
      and: symbol('ompi_mpi_op_band'),
      or: symbol('ompi_mpi_op_bor'),
      xor: symbol('ompi_mpi_op_bxor'),
    },
    errorsReturn: symbol('ompi_mpi_errors_return'),
    nullInfo: symbol('ompi_mpi_info_null'),
    inPlace: 1n,
    ignoredStatus: null,
    sourceIndex: 0,
    anySource: -1,
    undefinedColor: -32766,
    sharedHost: 0,
    truncated: 15,
  };
}

/**
 * The interface on which MPICH, Intel MPI, MVAPICH and Cray MPICH have agreed (the MPICH ABI initiative), whose
 * handles are numbers.
 */
export const mpichAbi: MpiAbi = {
  name: 'MPICH',
  handle: 'int',
  world: 0x44000000,
  byte: 0x4c00010d,
  types: {
    f64: 0x4c00080b,
    f32: 0x4c00040a,
    i64: 0x4c00083a,
    i32: 0x4c000439,
    u8: 0x4c00013b,
  },
  ops: {
    sum: 0x58000003,
    product: 0x58000004,
    min: 0x58000002,
    max: 0x58000001,
    and: 0x58000006,
    or: 0x58000008,
    xor: 0x5800000a,
  },
  errorsReturn: 0x54000001,
  nullInfo: 0x1c000000,
  inPlace: 2n ** 64n - 1n,
  ignoredStatus: 1n,
  sourceIndex: 2,
  anySource: -2,
  undefinedColor: -32766,
  sharedHost: 1,
  truncated: 14,
};

const floatOps: readonly NativeOp[] = ['sum', 'product'];
const intOps: readonly NativeOp[] = ['sum', 'product', 'min', 'max', 'and', 'or', 'xor'];
const byteOps: readonly NativeOp[] = ['min', 'max', 'and', 'or', 'xor'];

/**
 * The type and operation with which MPI reduces values to the bits that every group gives. Undefined if MPI cannot do
 * it. Its min and max of floats lose NaN, sums of bytes saturate in Open MPI with AVX, and it has no averages and no
 * factors.
 */
export function nativeReduction(
  dtype: DType,
  op: ReduceOp,
): { readonly type: NativeType; readonly op: NativeOp } | undefined {
  const known = natives[dtype];
  const native = known?.ops.find((name) => name === op);
  return known === undefined || native === undefined ? undefined : { type: known.type, op: native };
}

const natives: Record<
  DType,
  { readonly type: NativeType; readonly ops: readonly NativeOp[] } | undefined
> = {
  f64: { type: 'f64', ops: floatOps },
  f32: { type: 'f32', ops: floatOps },
  f16: undefined,
  bf16: undefined,
  i64: { type: 'i64', ops: intOps },
  i32: { type: 'i32', ops: intOps },
  u8: { type: 'u8', ops: byteOps },
  bool: { type: 'u8', ops: byteOps },
};
