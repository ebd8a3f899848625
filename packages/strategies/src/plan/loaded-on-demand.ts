// What only plans load that share parameters out, or compute in fewer bits. It is one module, so that bundlers make
// one file of it: with two, they would cut what both share with a page into files of their own.
export { lowerPrecision } from '../mixed-precision/lower-precision.ts';
export { runInAutocast } from '../mixed-precision/run-in-autocast.ts';
export { shareOut } from '../sharding/share-out.ts';
