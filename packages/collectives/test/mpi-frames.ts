import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { deserialize, serialize } from 'node:v8';

/** Sends a value between a test and one of its ranks, as a length followed by a structured clone. */
export function sendFrame(socket: Socket, value: unknown): void {
  const body = serialize(value);
  const header = Buffer.alloc(4);
  header.writeUInt32LE(body.byteLength);
  socket.write(Buffer.concat([header, body]));
}

/** Emits 'frame' for each value that arrives. */
export class FrameReader extends EventEmitter {
  #bytes: Buffer = Buffer.alloc(0);

  constructor(socket: Socket) {
    super();
    socket.on('data', (chunk: Buffer) => this.#take(chunk));
  }

  #take(chunk: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, chunk]);
    while (this.#bytes.byteLength >= 4) {
      const end = 4 + this.#bytes.readUInt32LE();
      if (this.#bytes.byteLength < end) return;
      const body = this.#bytes.subarray(4, end);
      this.#bytes = this.#bytes.subarray(end);
      this.emit('frame', deserialize(body));
    }
  }
}
