/** The exports of @shardwise/testing that need no test runner. */
export { checkGradients, finiteDifference, interpreter, NdArray } from '@shardwise/testing';
