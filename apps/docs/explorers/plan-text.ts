/** This module is separate, because only few readers unfold the text that it makes. */
export { explain } from '@shardwise/strategies';
