import type { AlgorithmTable } from './algorithm-table.ts';

const KiB = 1024;
const MiB = 1024 * KiB;

/**
 * Rules for one host come from measureAlgorithms over TCP on loopback. Limits are rounded to powers of two, and set by
 * hand where runs on a busy machine disagreed. For several hosts the rules were also measured on loopback, which has no
 * slow link between hosts. Hierarchical algorithms are used from the size at which they are no slower even there,
 * because they send fewer bytes between hosts. The hierarchical all-to-all sends as many bytes in fewer messages. It is
 * used from the number of ranks at which, by count, it sends a quarter of the messages.
 */
export const defaultAlgorithmTable: AlgorithmTable = {
  madeBy: 'measureAlgorithms and algorithmTableOf, tcp, 2 and 4 ranks',
  machine: '2 cores of an AMD EPYC (Zen 4), Node 24.21',
  rules: [
    { operation: 'allReduce', hosts: 'one', ranks: 2, upToBytes: 256 * KiB, algorithm: 'direct' },
    { operation: 'allReduce', hosts: 'one', ranks: 4, upToBytes: 128 * KiB, algorithm: 'direct' },
    { operation: 'allReduce', hosts: 'one', ranks: 8, upToBytes: 32 * KiB, algorithm: 'direct' },
    { operation: 'allGather', hosts: 'one', ranks: 4, upToBytes: 32 * KiB, algorithm: 'bruck' },
    { operation: 'broadcast', hosts: 'one', ranks: 4, upToBytes: 512 * KiB, algorithm: 'tree' },
    { operation: 'broadcast', hosts: 'one', ranks: 4, upToBytes: null, algorithm: 'chain' },

    {
      operation: 'allReduce',
      hosts: 'several',
      ranks: 2,
      upToBytes: 256 * KiB,
      algorithm: 'direct',
    },
    {
      operation: 'allReduce',
      hosts: 'several',
      ranks: 4,
      upToBytes: 64 * KiB,
      algorithm: 'direct',
    },
    { operation: 'allReduce', hosts: 'several', ranks: 4, upToBytes: MiB, algorithm: 'two-phase' },
    {
      operation: 'allReduce',
      hosts: 'several',
      ranks: 4,
      upToBytes: null,
      algorithm: 'hierarchical',
    },
    {
      operation: 'reduceScatter',
      hosts: 'several',
      ranks: 4,
      upToBytes: 2 * MiB,
      algorithm: 'direct',
    },
    {
      operation: 'reduceScatter',
      hosts: 'several',
      ranks: 4,
      upToBytes: null,
      algorithm: 'hierarchical',
    },
    { operation: 'reduce', hosts: 'several', ranks: 4, upToBytes: 2 * MiB, algorithm: 'direct' },
    { operation: 'reduce', hosts: 'several', ranks: 4, upToBytes: null, algorithm: 'hierarchical' },
    { operation: 'allGather', hosts: 'several', ranks: 4, upToBytes: 32 * KiB, algorithm: 'bruck' },
    {
      operation: 'allGather',
      hosts: 'several',
      ranks: 4,
      upToBytes: null,
      algorithm: 'hierarchical',
    },
    { operation: 'broadcast', hosts: 'several', ranks: 4, upToBytes: MiB, algorithm: 'tree' },
    {
      operation: 'broadcast',
      hosts: 'several',
      ranks: 4,
      upToBytes: null,
      algorithm: 'hierarchical',
    },
    { operation: 'allToAll', hosts: 'several', ranks: 2, upToBytes: null, algorithm: 'pairwise' },
    {
      operation: 'allToAll',
      hosts: 'several',
      ranks: 8,
      upToBytes: null,
      algorithm: 'hierarchical',
    },
    {
      operation: 'barrier',
      hosts: 'several',
      ranks: 8,
      upToBytes: null,
      algorithm: 'hierarchical',
    },
  ],
};
