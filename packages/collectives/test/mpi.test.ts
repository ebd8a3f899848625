import { dtypes, type DType, type ReduceOp } from '@shardwise/core/spec';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { nativeReduction } from '../src/mpi/mpi-abi.ts';
import { mpiLibraryNames } from '../src/mpi/mpi-library.ts';
import { decodeNotice, encodeNotice, MAX_NOTICE_BYTES } from '../src/mpi/notice-board.ts';

describe('the MPI library', () => {
  it('is the one that SHARDWISE_MPI_LIBRARY names', () => {
    const named = { SHARDWISE_MPI_LIBRARY: '/opt/mpi/libmpi.so', OMPI_COMM_WORLD_RANK: '0' };
    expect(mpiLibraryNames(named)).toEqual(['/opt/mpi/libmpi.so']);
  });

  it('else that of the launcher that has started the process', () => {
    expect(mpiLibraryNames({ OMPI_COMM_WORLD_RANK: '1' })[0]).toBe('libmpi.so.40');
    expect(mpiLibraryNames({ PMI_RANK: '1' })[0]).toBe('libmpich.so.12');
  });

  it('mpirun of Open MPI within a job of Slurm, which sets PMI_RANK, is Open MPI', () => {
    const both = { OMPI_COMM_WORLD_RANK: '1', PMI_RANK: '0', SLURM_PROCID: '0' };
    expect(mpiLibraryNames(both)[0]).toBe('libmpi.so.40');
  });

  it('is one of the usual names if none is named', () => {
    expect(mpiLibraryNames({})).toEqual(
      expect.arrayContaining(['libmpi.so.40', 'libmpich.so.12', 'libmpi.so.12']),
    );
  });
});

const dtypeNames = Object.keys(dtypes).filter((name): name is DType => name in dtypes);

describe('which reductions are left to MPI', () => {
  const allowed = (op: ReduceOp): readonly DType[] =>
    dtypeNames.filter((dtype) => nativeReduction(dtype, op) !== undefined);

  it('sums and products of the types it has, but not of bytes, where Open MPI saturates', () => {
    expect(allowed('sum')).toEqual(['f64', 'f32', 'i64', 'i32']);
    expect(allowed('product')).toEqual(['f64', 'f32', 'i64', 'i32']);
  });

  it('min and max only of what has no NaN, which MPI may lose', () => {
    expect(allowed('min')).toEqual(['i64', 'i32', 'u8', 'bool']);
    expect(allowed('max')).toEqual(['i64', 'i32', 'u8', 'bool']);
  });

  it('neither averages nor factors', () => {
    expect(allowed('avg')).toEqual([]);
    expect(allowed({ premultipliedSum: 2 })).toEqual([]);
  });
});

describe('notices', () => {
  it('come as they were sent, but for reasons without end', () => {
    fc.assert(
      fc.property(fc.nat(), fc.nat(), fc.string({ maxLength: 4000 }), (world, rank, reason) => {
        const bytes = encodeNotice({ kind: 'abort', world, rank, reason });
        expect(bytes.byteLength).toBeLessThanOrEqual(MAX_NOTICE_BYTES);
        expect(decodeNotice(bytes)).toEqual({
          kind: 'abort',
          world,
          rank,
          reason: reason.slice(0, 2000),
        });
      }),
    );
  });

  it('what is none is undefined', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        expect(decodeNotice(bytes)).toBeUndefined();
      }),
    );
    const encode = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));
    for (const value of [
      null,
      {},
      { kind: 'other' },
      { kind: 'left', world: -1, group: 0 },
      { kind: 'left', world: 0, group: '1' },
    ]) {
      expect(decodeNotice(encode(value))).toBeUndefined();
    }
  });
});
