/* SPDX-License-Identifier: MIT */
/*
 * Two threads each get a page, with handles that share a list of HSTS, under a lock of
 * the program. Of the two hosts that the program remembers the time of one is over.
 */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { CLIENTS = 2 };

static pthread_mutex_t locks[CURL_LOCK_DATA_LAST];
static CURLSH *share;

static void lock(CURL *handle, curl_lock_data data, curl_lock_access access, void *unused)
{
	pthread_mutex_lock(&locks[data]);
}

static void unlock(CURL *handle, curl_lock_data data, void *unused)
{
	pthread_mutex_unlock(&locks[data]);
}

/* Tells what the program remembers, one host at a time. */
static CURLSTScode remembered(CURL *handle, struct curl_hstsentry *e, void *told)
{
	static const char *const hosts[][2] = { { "old.example", "20010101 00:00:00" },
						{ "new.example", "20370101 00:00:00" } };
	int i = (*(int *)told)++;

	if (i >= 2)
		return CURLSTS_DONE;
	strcpy(e->name, hosts[i][0]);
	strcpy(e->expire, hosts[i][1]);
	return CURLSTS_OK;
}

static void *client(void *unused)
{
	CURL *handle = curl_easy_init();
	int told = 0;
	CURLcode result;

	curl_easy_setopt(handle, CURLOPT_URL, "http://127.0.0.1:8080/");
	curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(handle, CURLOPT_SHARE, share);
	curl_easy_setopt(handle, CURLOPT_HSTSREADFUNCTION, remembered);
	curl_easy_setopt(handle, CURLOPT_HSTSREADDATA, &told);
	result = curl_easy_perform(handle);
	curl_easy_cleanup(handle);
	return result == CURLE_OK ? NULL : handle;
}

static void *serve(void *server)
{
	static const char answer[] = "HTTP/1.1 204 OK\r\nConnection: close\r\n\r\n";
	char request[1000];

	for (int i = 0; i < CLIENTS; i++) {
		int fd = accept(*(int *)server, NULL, NULL);

		if (read(fd, request, sizeof request) > 0)
			(void)!write(fd, answer, sizeof answer - 1);
		close(fd);
	}
	return NULL;
}

int main(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(8080),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int server = socket(AF_INET, SOCK_STREAM, 0), failed = 0;
	pthread_t t[CLIENTS + 1];
	void *result;

	setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
	if (bind(server, (struct sockaddr *)&a, sizeof a) || listen(server, CLIENTS))
		return 2;
	for (int i = 0; i < CURL_LOCK_DATA_LAST; i++)
		pthread_mutex_init(&locks[i], NULL);
	curl_global_init(CURL_GLOBAL_NOTHING);
	share = curl_share_init();
	curl_share_setopt(share, CURLSHOPT_LOCKFUNC, lock);
	curl_share_setopt(share, CURLSHOPT_UNLOCKFUNC, unlock);
	curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_HSTS);
	for (int i = 0; i <= CLIENTS; i++)
		pthread_create(&t[i], NULL, i ? client : serve, &server);
	for (int i = 0; i <= CLIENTS; i++) {
		pthread_join(t[i], &result);
		failed |= result != NULL;
	}
	curl_share_cleanup(share);
	return failed;
}
