/** Which states the ranks share out; each includes those before it. */
export type ShardedStates = 'optimizer' | 'gradients' | 'parameters';
