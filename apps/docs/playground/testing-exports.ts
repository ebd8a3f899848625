/** Of @shardwise/testing, what needs no test runner. */
export { checkGradients, finiteDifference, interpreter, NdArray } from '@shardwise/testing';
