/** How a round ended; set once. */
export const endKey = (epoch: number): string => `end/${epoch}`;

/** Counts the hosts whose ranks have all finished. */
export const finishedKey = (epoch: number): string => `finished/${epoch}`;

/** Counts the hosts that have learned that the run is over. */
export const LEFT_KEY = 'left';
