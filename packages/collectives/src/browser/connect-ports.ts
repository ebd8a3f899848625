/** The ports of a world. Post them to its workers. */
export interface ConnectedPorts {
  /** For each rank, the ports that portTransport takes on it. */
  readonly ranks: readonly (readonly MessagePort[])[];
  /** For each rank, the other end of the port at the rank's own index. */
  readonly starter: readonly MessagePort[];
}

/**
 * Makes a port between every two of `size` ranks, and one between each rank and the program that starts the
 * ranks.
 */
export function connectPorts(size: number): ConnectedPorts {
  const ranks = Array.from({ length: size }, (): MessagePort[] => []);
  const starter: MessagePort[] = [];
  for (const [rank, row] of ranks.entries()) {
    for (let peer = 0; peer < rank; peer++) {
      const { port1, port2 } = new MessageChannel();
      row.push(port1);
      ranks[peer]?.push(port2);
    }
    const { port1, port2 } = new MessageChannel();
    row.push(port1);
    starter.push(port2);
  }
  return { ranks, starter };
}
