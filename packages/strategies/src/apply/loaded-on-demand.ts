// Only plans that shard parameters or compute in fewer bits load these modules. They are exported from one module
// so that bundlers make one file of them. With two, bundlers would also move the code that both share with the page
// into separate files.
export { lowerPrecision } from '../mixed-precision/lower-precision.ts';
export { runInAutocast } from '../mixed-precision/lower-precision.ts';
export { shardParameters } from '../sharded/shard-parameters.ts';
