/** By itself, as few readers unfold what it prints. */
export { explain } from '@shardwise/strategies';
