/**
 * Why tests cannot run on a device here, for the names of tests; undefined if they can. `create` makes the
 * backend of the device. With SHARDWISE_REQUIRE_DEVICES=1 it is always undefined, so the tests run and fail.
 */
export async function reasonWithoutDevice(
  create: () => Promise<{ close(): void }>,
): Promise<string | undefined> {
  if (process.env['SHARDWISE_REQUIRE_DEVICES'] === '1') return undefined;
  try {
    const device = await create();
    device.close();
    return undefined;
  } catch (error) {
    return String(error);
  }
}
