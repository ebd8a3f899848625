import { protocolError } from './wire-error.ts';

const purposes = ['store', 'messages', 'heartbeat', 'requests'] as const;

/** What a connection is for. */
type Purpose = (typeof purposes)[number];

/** What a connection says of itself when it has proved that it has the secret. */
export interface Hello {
  readonly purpose: Purpose;
  /**
   * The rank that connects, the rank that is connected to, and the number of ranks. All are 0 for stores and requests.
   */
  readonly from: number;
  readonly to: number;
  readonly size: number;
  readonly epoch: number;
}

export const HELLO_BYTES = 24;

export function encodeHello(hello: Hello): Uint8Array<ArrayBuffer> {
  const view = new DataView(new ArrayBuffer(HELLO_BYTES));
  view.setUint32(0, purposes.indexOf(hello.purpose), true);
  view.setUint32(4, hello.from, true);
  view.setUint32(8, hello.to, true);
  view.setUint32(12, hello.size, true);
  view.setFloat64(16, hello.epoch, true);
  return new Uint8Array(view.buffer);
}

export function decodeHello(bytes: Uint8Array): Hello {
  const view = new DataView(bytes.buffer, bytes.byteOffset, HELLO_BYTES);
  const purpose = purposes[view.getUint32(0, true)];
  if (purpose === undefined) throw protocolError('its purpose is unknown');
  return {
    purpose,
    from: view.getUint32(4, true),
    to: view.getUint32(8, true),
    size: view.getUint32(12, true),
    epoch: view.getFloat64(16, true),
  };
}
