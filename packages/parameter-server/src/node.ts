// How processes reach parameter servers over sockets.
export {
  connectServers,
  type ConnectedServers,
  type ConnectServersOptions,
  type ServerAddress,
} from './client/connect-servers.ts';
